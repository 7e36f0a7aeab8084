from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget
from eigenformer.targets.metrics import MeanRecall
from eigenformer.training.scores import MeanLoss, Score, full_precision

NAN = float("nan")


def _score(outputs, predictions, targets, parts=1):
    score = Score(outputs)
    for i in range(parts):
        score.update(predictions[i::parts], targets[i::parts])
    return score.compute()


def test_mae_is_in_the_users_units_and_ignores_missing_labels():
    outputs = NumberTarget(num_outputs=2, mean=(10.0, -5.0), scale=(2.0, 0.5))
    predictions = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    targets = torch.tensor([[11.0, NAN], [12.0, -5.0]])
    assert _score(outputs, predictions, targets) == pytest.approx((1 + 0 + 1) / 3)
    torch.testing.assert_close(outputs.restore(outputs.standardise(targets))[1], targets[1])


def test_accuracy():
    predictions = torch.eye(3)[[0, 1, 2, 2]]
    targets = torch.tensor([0, 1, 1, 2])
    outputs = ClassTarget(num_outputs=3)
    assert _score(outputs, predictions, targets) == pytest.approx(0.75)


def test_weighted_accuracy_is_the_mean_recall_not_the_accuracy():
    """Nine of ten nodes in class 0: saying 0 always is worth one half."""
    targets = torch.zeros(10, 1)
    targets[9] = 1
    assert _score(LabelTarget(level="node"), -torch.ones(10, 1), targets) == pytest.approx(0.5)
    classes = torch.tensor([0] * 8 + [1] * 2)
    always = torch.eye(3)[[0] * 10]
    assert _score(ClassTarget(level="node", num_outputs=3), always, classes) == pytest.approx(0.5)


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
    outputs = LabelTarget(num_outputs=4, judged_by="average_precision", kind="multilabel")
    found = _score(outputs, torch.tensor(logits), torch.tensor(labels).float(), parts=3)
    assert found == pytest.approx(np.mean(expected), abs=1e-6)


def test_average_precision_of_one_label():
    outputs = LabelTarget(judged_by="average_precision")
    targets = torch.tensor([[0.0], [1], [NAN], [0]])
    assert _score(outputs, torch.tensor([[-1.0], [2], [9], [0]]), targets) == pytest.approx(1.0)
    # Without a positive there is nothing to say, rather than a 0.
    assert math.isnan(_score(outputs, torch.randn(3, 1), torch.zeros(3, 1)))


def test_labels_of_ones_own_data_are_judged_by_the_area_under_the_roc_curve():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 4))
    labels = (rng.random((60, 4)) < 0.4).astype(float)
    labels[:, 2], labels[:, 3] = 0, 1  # always the same: skipped
    labels[5, 0] = NAN
    known = ~np.isnan(labels[:, 0])
    expected = [metrics.roc_auc_score(labels[known, 0], logits[known, 0])]
    expected += [metrics.roc_auc_score(labels[:, 1], logits[:, 1])]
    outputs = LabelTarget(num_outputs=4, kind="multilabel")
    assert outputs.metric == "auroc"
    found = _score(outputs, torch.tensor(logits), torch.tensor(labels).float(), parts=3)
    assert found == pytest.approx(np.mean(expected), abs=1e-6)
    assert math.isnan(_score(outputs, torch.randn(3, 4), torch.ones(3, 4)))


@pytest.mark.parametrize(
    "outputs",
    [
        NumberTarget(num_outputs=2, mean=(1.0, -2.0), scale=(3.0, 0.5)),
        ClassTarget(num_outputs=3),
        ClassTarget(num_outputs=2),
        LabelTarget(),
        ClassTarget(level="node", num_outputs=3),
        LabelTarget(level="node"),
    ],
    ids=lambda outputs: f"{outputs.level}-{outputs.kind}-{outputs.num_outputs}",
)
def test_all_metrics_agree_with_scikit_learn(outputs):
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    raw = rng.normal(size=(50, outputs.num_outputs)).astype(np.float32)
    if outputs.kind == "regression":
        shown = raw * outputs.scale + outputs.mean
        targets = (shown + rng.normal(size=shown.shape)).astype(np.float32)
        missing = rng.random(targets.shape) < 0.2
        columns = [(targets[~m, i], shown[~m, i]) for i, m in enumerate(missing.T)]
        pooled = [np.concatenate(part) for part in zip(*columns, strict=True)]
        expected = {
            "mae": metrics.mean_absolute_error(*pooled),
            "rmse": metrics.mean_squared_error(*pooled) ** 0.5,
            "r2": np.mean([metrics.r2_score(*column) for column in columns]),
        }
        targets[missing] = NAN
        given = torch.tensor(targets)
    else:
        classes = max(2, outputs.num_outputs)
        labels = rng.integers(classes, size=50)
        guess = raw.argmax(1) if outputs.kind == "multiclass" else (raw[:, 0] > 0).astype(int)
        expected = {
            "accuracy": metrics.accuracy_score(labels, guess),
            "weighted_accuracy": metrics.balanced_accuracy_score(labels, guess),
            "f1": metrics.f1_score(labels, guess, average="macro"),
        }
        if outputs.kind == "binary":
            expected["auroc"] = metrics.roc_auc_score(labels, raw[:, 0])
            expected["average_precision"] = metrics.average_precision_score(labels, raw[:, 0])
        if outputs.num_outputs == 2:
            expected["auroc"] = metrics.roc_auc_score(labels, raw[:, 1] - raw[:, 0])
        given = torch.tensor(labels)
        if outputs.kind == "binary":
            given = given.float().view(-1, 1)
    score = Score(outputs, outputs.metrics)
    for i in range(3):
        score.update(torch.tensor(raw[i::3]), given[i::3])
    found = score.compute_all()
    assert tuple(found) == outputs.metrics
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=1e-5), name


@pytest.mark.parametrize("outputs", [NumberTarget(), LabelTarget()])
def test_nothing_known_is_not_a_number(outputs):
    score = Score(outputs, outputs.metrics)
    score.update(torch.randn(3, 1), torch.full((3, 1), NAN))
    found = score.compute_all()
    assert found.pop("accuracy", 0) == 0  # torchmetrics' word for none
    assert found
    assert all(map(math.isnan, found.values()))


def test_the_loss_is_the_same_however_the_labels_are_shared_out():
    outputs = ClassTarget(level="node", num_outputs=3)
    predictions, targets = torch.randn(30, 3), torch.randint(3, (30,))
    targets[:4] = -1
    losses = []
    for parts in (1, 7):
        loss = MeanLoss(outputs)
        for i in range(parts):
            loss.update(*outputs.loss_sums(predictions[i::parts], targets[i::parts]))
        losses.append(float(loss.compute()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert math.isnan(float(MeanLoss(outputs).compute()))


def test_reset_forgets():
    score = Score(NumberTarget())
    score.update(torch.ones(2, 1), torch.zeros(2, 1))
    score.reset()
    score.update(torch.zeros(2, 1), torch.zeros(2, 1))
    assert score.compute() == 0


@pytest.mark.parametrize("bad", [NAN, float("inf")])
@pytest.mark.parametrize(
    "outputs",
    [
        NumberTarget(),
        ClassTarget(num_outputs=2),
        ClassTarget(level="node", num_outputs=2),
        LabelTarget(),
        LabelTarget(level="node"),
    ],
    ids=lambda outputs: f"{outputs.level}-{outputs.kind}",
)
def test_a_prediction_that_is_not_a_number_has_no_score(outputs, bad):
    targets = torch.tensor([0, 0, 0, 0, 1])
    if not isinstance(outputs, ClassTarget):
        targets = targets.float()[:, None]
    score = Score(outputs, outputs.metrics)
    score.update(torch.zeros(5, outputs.width), targets)
    assert not all(map(math.isnan, score.compute_all().values()))
    score.update(torch.full((5, outputs.width), bad), targets)
    assert all(map(math.isnan, score.compute_all().values()))
    score.reset()
    score.update(torch.zeros(5, outputs.width), targets)
    assert not all(map(math.isnan, score.compute_all().values()))


def test_half_precision_is_not_summed_in_half_precision():
    predictions, targets = torch.ones(4096, 1, dtype=torch.bfloat16), torch.zeros(4096, 1)
    predictions[0] = 3
    target = NumberTarget()
    loss = target.mean_loss(*target.loss_sums(full_precision(predictions), targets))
    assert loss == pytest.approx(1 + 2 / 4096, abs=1e-7)
    assert _score(target, predictions, targets) == pytest.approx(1 + 2 / 4096, abs=1e-7)


def to_a_device_without_float64(x):
    if x.dtype == torch.float64:
        raise TypeError("no float64 here")
    return x


def test_metrics_need_no_float64(monkeypatch):
    monkeypatch.setattr("eigenformer.transfer.has_float64", lambda _: False)
    monkeypatch.setattr(torch.Tensor, "double", lambda _: pytest.fail("no float64 here"))
    targets = torch.tensor([[1.0], [2.0], [torch.nan], [4.0]])
    r2 = NumberTarget().make_metric("r2")
    r2._apply(to_a_device_without_float64)
    r2.update(torch.tensor([[1.0], [2.0], [0.0], [3.0]]), targets)
    assert r2.compute() == pytest.approx(1 - 1 / (14 / 3))
    assert r2.errors.dtype == torch.float32
    recall = MeanRecall(3)
    recall.update(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]))
    assert recall.compute() == pytest.approx(0.75)


def test_the_mean_loss_moves_to_a_device_without_float64():
    loss = MeanLoss(NumberTarget())
    loss._apply(to_a_device_without_float64)
    loss.update(torch.tensor([3.0]), torch.tensor([2]))
    assert loss.compute() == 1.5
    loss.reset()
    assert loss.sums.dtype == torch.float32
    assert MeanLoss(NumberTarget()).to("cpu").sums.dtype == torch.float64
