"""Targets that are numbers: loss, units, words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from eigenformer.config import ConfigError
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget

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


@pytest.mark.parametrize("name", ["l1", "l2", "huber"])
def test_losses_to_choose_from(name):
    predictions, targets = 3 * torch.randn(6, 2), torch.randn(6, 2)
    theirs = {"l1": F.l1_loss, "l2": F.mse_loss, "huber": F.huber_loss}[name]
    outputs = NumberTarget(num_outputs=2).learned(name)
    torch.testing.assert_close(_loss(outputs, predictions, targets), theirs(predictions, targets))
    targets[0, 1] = NAN
    known = ~targets.isnan()
    expected = theirs(predictions[known], targets[known])
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)
    assert outputs.learned(None).loss == "l1"


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


def test_large_numbers_with_small_differences_keep_their_digits():
    values = torch.tensor([1e8 + 0.001, 1e8 + 0.002, 1e8 + 0.003], dtype=torch.float64)
    target = NumberTarget().fitted(values.numpy())
    standard = target.standardise(target.as_tensor(values))
    assert standard.flatten().tolist() == pytest.approx([-1.2247, 0, 1.2247], abs=1e-3)
    restored = target.in_units(standard.float())
    assert (restored.flatten() - values).abs().max() < 1e-5
    for name, expected in (("mae", 0.001), ("r2", 1 - 1.5 * (2 / 3))):
        metric = target.make_metric(name)
        guess = torch.zeros(3, 1) + standard.float()[1]
        metric.update(*target.metric_pair(name, guess * 1.0, target.as_tensor(values)))
        found = float(metric.compute())
        assert found == pytest.approx(expected if name == "r2" else 0.002 / 3, abs=1e-4)


def test_a_constant_is_not_scaled_even_if_its_deviation_is_rounded():
    values = np.full((3, 1), 0.1)
    assert values.std() > 0
    assert NumberTarget().fitted(values).scale == (1.0,)


@pytest.mark.parametrize(
    ("target", "values", "doubt"),
    [
        (NumberTarget(), [2.0, 2.0, np.nan], "all values of 'prediction' are equal"),
        (NumberTarget(), [2.0, 2.5], ""),
        (NumberTarget(), [1e-7, 2e-7], ""),
        (
            NumberTarget(),
            [1e-200, 2e-200, np.nan],
            "the values of 'prediction' differ by less than 1.2e-38, which single precision cannot "
            "tell apart; multiply them by a constant",
        ),
        (LabelTarget(), [1.0, np.nan, 1.0], "all values are of one class"),
        (LabelTarget(), [1.0, 0.0], ""),
        (ClassTarget(num_outputs=3), [2, -1, 2], "all values are of one class"),
        (ClassTarget(num_outputs=3), [2, -1, 1], ""),
    ],
)
def test_targets_that_nothing_can_be_learned_from(target, values, doubt):
    assert target.doubt(np.array(values)) == doubt
