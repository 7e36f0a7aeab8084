from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenformer.model_folder import Outputs
from eigenformer.training.metrics import Score

NAN = float("nan")


def _score(outputs, predictions, targets, parts=1):
    score = Score(outputs)
    for i in range(parts):
        score.update(predictions[i::parts], targets[i::parts])
    return score.compute()


def test_mae_is_in_the_users_units_and_ignores_missing_labels():
    outputs = Outputs(num_outputs=2, mean=(10.0, -5.0), scale=(2.0, 0.5))
    predictions = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    targets = torch.tensor([[11.0, NAN], [12.0, -5.0]])
    assert _score(outputs, predictions, targets) == pytest.approx((1 + 0 + 1) / 3)
    torch.testing.assert_close(outputs.restore(outputs.standardise(targets))[1], targets[1])


def test_accuracy():
    predictions = torch.eye(3)[[0, 1, 2, 2]]
    targets = torch.tensor([0, 1, 1, 2])
    outputs = Outputs(kind="multiclass", num_outputs=3)
    assert _score(outputs, predictions, targets) == pytest.approx(0.75)


def test_weighted_accuracy_is_the_mean_recall_not_the_accuracy():
    """Nine of ten nodes in class 0: saying 0 always is worth one half."""
    targets = torch.zeros(10, 1)
    targets[9] = 1
    assert _score(Outputs("node", "binary"), -torch.ones(10, 1), targets) == pytest.approx(0.5)
    classes = torch.tensor([0] * 8 + [1] * 2)
    always = torch.eye(3)[[0] * 10]
    assert _score(Outputs("node", "multiclass", 3), always, classes) == pytest.approx(0.5)


def test_average_precision_is_the_mean_over_labels_with_a_positive():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 4))
    labels = (rng.random((60, 4)) < 0.3).astype(float)
    labels[:, 3] = 0  # no positive: skipped
    labels[5, 0] = NAN
    known = ~np.isnan(labels[:, 0])
    expected = [metrics.average_precision_score(labels[known, 0], logits[known, 0])]
    expected += [metrics.average_precision_score(labels[:, i], logits[:, i]) for i in (1, 2)]
    outputs = Outputs(kind="multilabel", num_outputs=4)
    found = _score(outputs, torch.tensor(logits), torch.tensor(labels).float(), parts=3)
    assert found == pytest.approx(np.mean(expected), abs=1e-6)


def test_average_precision_of_one_label():
    outputs = Outputs(kind="binary")
    targets = torch.tensor([[0.0], [1], [NAN], [0]])
    assert _score(outputs, torch.tensor([[-1.0], [2], [9], [0]]), targets) == pytest.approx(1.0)
    # Without a positive there is nothing to say, rather than a 0.
    assert math.isnan(_score(outputs, torch.randn(3, 1), torch.zeros(3, 1)))


def test_reset_forgets():
    score = Score(Outputs())
    score.update(torch.ones(2, 1), torch.zeros(2, 1))
    score.reset()
    score.update(torch.zeros(2, 1), torch.zeros(2, 1))
    assert score.compute() == 0
    assert math.isfinite(score.compute())
