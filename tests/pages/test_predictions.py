"""Predictions in words: the user's units, probabilities, names."""

from __future__ import annotations

import numpy as np

from eigenformer.pages.predictions import (
    graph_lines,
    node_lines,
    prediction_html,
    truth_text,
)
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget
from eigenformer.targets.base import show_share


def test_numbers_have_their_names() -> None:
    outputs = NumberTarget(num_outputs=2, names=("<i>a</i>", "b"))
    html = prediction_html(outputs, np.array([[-1.23456, 1e6]]))
    assert "<dt>&lt;i&gt;a&lt;/i&gt;</dt><dd>−1.235</dd>" in html
    assert "<dt>b</dt><dd>1e+06</dd>" in html
    assert truth_text(outputs, np.array([[np.nan, 2.5]])) == "<i>a</i> unknown, b 2.5"
    assert truth_text(outputs, np.array([[np.nan, np.nan]])) == ""
    assert truth_text(outputs, None) == ""


def test_classes_are_sorted_by_their_probability() -> None:
    outputs = ClassTarget(num_outputs=3, names=("cat", "dog", "ox"))
    html = prediction_html(outputs, np.array([[0.2, 0.7, 0.1]]))
    assert html.index("dog") < html.index("cat") < html.index("ox")
    assert "70.0 %" in html
    assert truth_text(outputs, np.array([2])) == "ox"
    assert truth_text(outputs, np.array([-1])) == ""


def test_labels_keep_their_order() -> None:
    outputs = LabelTarget(num_outputs=2, names=("active", "toxic"), kind="multilabel")
    html = prediction_html(outputs, np.array([[0.1, 0.9]]))
    assert html.index("active") < html.index("toxic")
    assert truth_text(outputs, np.array([[1.0, 0.0]])) == "active yes, toxic no"


def test_nodes_are_told_one_by_one() -> None:
    outputs = LabelTarget(level="node", names=("in the pattern",))
    prediction = np.array([[0.9], [0.2]])
    assert "nodes that are in the pattern" in prediction_html(outputs, prediction)
    assert "50.0 %" in prediction_html(outputs, prediction)
    assert node_lines(outputs, prediction, np.array([[1.0], [np.nan]])) == [
        "predicted: 90.0 %, true: yes",
        "predicted: 20.0 %",
    ]
    assert node_lines(NumberTarget(), prediction, None) is None


def test_nothing_is_rounded_to_certainty() -> None:
    assert [show_share(p) for p in (0.0, 1e-6, 0.5, 1 - 1e-6, 1.0)] == [
        *("0.0 %", "<0.1 %", "50.0 %", ">99.9 %", "100.0 %")
    ]


def test_a_graph_takes_two_lines() -> None:
    outputs = ClassTarget(num_outputs=2, names=("cat", "dog"))
    found = graph_lines(outputs, np.array([[0.3, 0.7]]), np.array([0]))
    assert found == ["predicted dog (70.0 %)", "true cat"]
    assert graph_lines(NumberTarget(level="node"), np.zeros((3, 1)), np.zeros((3, 1))) == []


def test_many_outputs_are_folded() -> None:
    html = prediction_html(NumberTarget(num_outputs=30), np.zeros((1, 30)))
    assert "and 18 more" in html
