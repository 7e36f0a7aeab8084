"""Charts: values where they belong, ticks at round numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from eigenformer.pages.charts import Axis, Line, line_chart, scatter_chart, small_multiples


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis(0, 10, 0, 1), [0, 2, 4, 6, 8, 10]),
        (Axis(-0.03, 0.021, 0, 1), [-0.03, -0.02, -0.01, 0, 0.01, 0.02]),
        (Axis(1, 3, 0, 1, whole=True), [1, 2, 3]),
        (Axis(0.3, 12, 0, 1, log=True), [0.5, 1, 2, 5, 10]),
        (Axis(4, 4, 0, 1), [4]),
    ],
)
def test_ticks_are_round(axis: Axis, ticks: list[float]) -> None:
    assert axis.ticks() == pytest.approx(ticks)


def test_places() -> None:
    assert Axis(0, 4, 100, 0).place(np.array([0, 1, 4])).tolist() == [100, 75, 0]
    assert Axis(1, 100, 0, 10, log=True).place(10.0) == pytest.approx(5)
    assert Axis(2, 2, 0, 10).place(2.0) == 5


def test_a_line_leaves_out_what_is_no_number() -> None:
    x = np.arange(1.0, 5.0)
    html = line_chart([Line("a & b", x, np.array([1, np.nan, 3, 4.0]))], "epoch", "loss", (3, 3.0))
    path = re.search(r'class="line line-0" d="([^"]*)"', html)
    assert path is not None
    assert path[1].count("L") == 2
    assert "a &amp; b" in html
    assert 'class="mark"' in html
    ElementTree.fromstring(html[: html.index("</svg>") + 6])


def test_a_single_epoch_is_a_dot() -> None:
    assert "h0" in line_chart([Line("a", np.ones(1), np.ones(1))], "epoch", "loss")
    nothing = line_chart([Line("a", np.ones(1), np.full(1, np.nan))], "epoch", "loss")
    assert "No numbers" in nothing


def test_a_scatter_has_a_dot_for_each_known_pair() -> None:
    svg = scatter_chart(np.array([[0, 1], [2, 3], [np.nan, 1]]), "true", "predicted")
    dots = re.search(r'class="dots" d="([^"]*)"', svg)
    assert dots is not None
    assert dots[1].count("M") == 2
    assert "predicted against true, 2 points" in svg


def test_small_multiples_have_a_curve_for_each_head() -> None:
    curves = np.random.default_rng(0).normal(size=(3, 4, 9))
    svg = small_multiples(curves, np.linspace(0, 2, 9), "φ₂")
    lines = re.search(r'class="line line-0" d="([^"]*)"', svg)
    assert lines is not None
    assert lines[1].count("M") == 12
    assert lines[1].count("L") == 12 * 8
