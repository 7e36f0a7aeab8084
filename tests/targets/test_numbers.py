"""Targets that are numbers: loss, units, words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from eigenformer.config import ConfigError
from eigenformer.targets import NumberTarget

NAN = float("nan")


def _loss(outputs, predictions, targets):
    return outputs.mean_loss(*outputs.loss_sums(predictions, targets))


def test_regression_is_l1_and_ignores_missing_labels():
    predictions = torch.randn(6, 2)
    targets = torch.randn(6, 2)
    outputs = NumberTarget(num_outputs=2)
    torch.testing.assert_close(
        _loss(outputs, predictions, targets), F.l1_loss(predictions, targets)
    )
    targets[0, 1] = NAN
    known = ~targets.isnan()
    expected = F.l1_loss(predictions[known], targets[known])
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_the_best_constant_of_numbers_is_their_mean():
    targets = torch.tensor([[1.0, 5.0], [2.0, NAN], [6.0, 7.0]])
    found = NumberTarget(num_outputs=2).initial_bias(targets.numpy())
    assert found.tolist() == [3.0, 6.0]


def test_the_loss_is_that_of_standardised_targets():
    target = NumberTarget(num_outputs=2, mean=(1.0, 2.0), scale=(2.0, 4.0))
    predictions, targets = torch.randn(5, 2), torch.randn(5, 2)
    expected = F.l1_loss(predictions, target.standardise(targets))
    torch.testing.assert_close(_loss(target, predictions, targets), expected)
    torch.testing.assert_close(target.in_units(target.standardise(targets)), targets)


def test_units_are_those_of_the_training_set():
    values = np.array([[1.0, 5.0], [3.0, NAN], [5.0, 5.0]], np.float32)
    target = NumberTarget(num_outputs=2).fitted(values)
    assert target.mean == (3.0, 5.0)
    assert target.scale == pytest.approx((np.std([1, 3, 5]), 1.0))  # a constant stays as it is
    with pytest.raises(ConfigError, match="no value in the training set"):
        NumberTarget().fitted(np.array([NAN]))


@pytest.mark.parametrize(
    "units",
    [
        {"mean": (1.0,), "scale": (1.0,)},
        {"mean": (1.0, 2.0)},
        {"mean": (1.0, 2.0), "scale": (1.0, 0.0)},
        {"mean": (1.0, NAN), "scale": (1.0, 1.0)},
    ],
)
def test_units_that_cannot_be(units):
    with pytest.raises(ConfigError, match="mean|scale"):
        NumberTarget(num_outputs=2, **units)


def test_numbers_in_words():
    target = NumberTarget(num_outputs=2, names=("a", "b"))
    assert target.said(np.array([-1.23456, 1e6])) == "a −1.235, b 1e+06"
    assert target.truth(np.array([NAN, 2.5])) == "a unknown, b 2.5"
    assert target.truth(np.array([NAN, NAN])) == ""
    assert target.header() == ["predicted_a", "predicted_b"]
    assert target.cells(np.array([0.1, 2], np.float32)) == ["0.1", "2.0"]
    assert NumberTarget(num_outputs=14).said(np.zeros(14)).endswith("11 0, …")


def test_only_one_number_per_graph_is_a_point_of_a_scatter_plot():
    found = NumberTarget().pairs([np.ones((1, 1)), np.zeros((1, 1))], [np.full((1, 1), 2.0)] * 2)
    assert found.tolist() == [[2, 1], [2, 0]]
    assert NumberTarget(num_outputs=2).pairs([np.ones((1, 2))], [np.ones((1, 2))]) is None
    assert NumberTarget(level="node").pairs([np.ones((1, 1))], [np.ones((1, 1))]) is None
