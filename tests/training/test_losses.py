from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from eigenformer.outputs import Outputs
from eigenformer.training.losses import best_constant, class_weights, loss_sums, mean_loss

NAN = float("nan")


def _loss(outputs, predictions, targets):
    return mean_loss(outputs, *loss_sums(outputs, predictions, targets))


def test_regression_is_l1_and_ignores_missing_labels():
    predictions = torch.randn(6, 2)
    targets = torch.randn(6, 2)
    outputs = Outputs(num_outputs=2)
    torch.testing.assert_close(
        _loss(outputs, predictions, targets), F.l1_loss(predictions, targets)
    )
    targets[0, 1] = NAN
    known = ~targets.isnan()
    expected = F.l1_loss(predictions[known], targets[known])
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_multilabel_is_binary_cross_entropy_of_the_known_labels():
    predictions = torch.randn(5, 3)
    targets = torch.tensor([[0, 1, NAN]]).repeat(5, 1)
    expected = F.binary_cross_entropy_with_logits(predictions[:, :2], targets[:, :2])
    outputs = Outputs(kind="multilabel", num_outputs=3)
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_graph_classes_are_plain_cross_entropy():
    predictions, targets = torch.randn(7, 4), torch.randint(4, (7,))
    targets[2] = -1
    expected = F.cross_entropy(predictions, targets, ignore_index=-1)
    outputs = Outputs(kind="multiclass", num_outputs=4)
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_node_classes_weigh_v_minus_n_over_v():
    targets = torch.tensor([0, 0, 0, 1, 2, 2])
    predictions = torch.randn(6, 4)
    weights = torch.tensor([3 / 6, 5 / 6, 4 / 6, 1.0])
    expected = F.cross_entropy(predictions, targets, weight=weights)
    outputs = Outputs("node", "multiclass", 4)
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_node_labels_weigh_v_minus_n_over_v():
    targets = torch.tensor([[0.0], [0], [0], [1]])
    predictions = torch.randn(4, 1)
    weights = torch.tensor([[0.25], [0.25], [0.25], [0.75]])
    expected = F.binary_cross_entropy_with_logits(predictions, targets, weight=weights)
    torch.testing.assert_close(_loss(Outputs("node", "binary"), predictions, targets), expected)


def test_class_weights_of_nothing_are_finite():
    assert class_weights(torch.zeros(3)).isfinite().all()


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_losses_add_up_over_processes(level, kind):
    outputs = Outputs(level, kind, 3 if kind == "multiclass" else 1)
    predictions = torch.randn(8, outputs.num_outputs, dtype=torch.float64)
    targets = torch.randint(3, (8,))
    if kind != "multiclass":
        targets = (targets > 0).double().view(-1, 1)
    sums, counts = loss_sums(outputs, predictions, targets)
    parts = [loss_sums(outputs, predictions[i::3], targets[i::3]) for i in range(3)]
    torch.testing.assert_close(parts[0][0] + parts[1][0] + parts[2][0], sums)
    losses = [mean_loss(outputs, part, counts) for part, _ in parts]
    torch.testing.assert_close(sum(losses), mean_loss(outputs, sums, counts))


def test_half_precision_is_not_summed_in_half_precision():
    predictions, targets = torch.ones(4096, 1, dtype=torch.bfloat16), torch.zeros(4096, 1)
    predictions[0] = 3
    assert _loss(Outputs(), predictions, targets) == pytest.approx(1 + 2 / 4096, abs=1e-7)


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (Outputs(kind="multiclass", num_outputs=3), torch.tensor([0, 0, 0, 1, 2, 2, -1])),
        (Outputs("node", "multiclass", 3), torch.tensor([0, 0, 0, 0, 1, 2, 2, -1])),
        (Outputs(kind="binary"), torch.tensor([[1.0], [0], [0], [0], [NAN]])),
        (Outputs("node", "binary"), torch.tensor([[1.0], [0], [0], [0], [NAN]])),
        (
            Outputs(kind="multilabel", num_outputs=2),
            torch.tensor([[1.0, 0], [0, 0], [0, NAN], [0, 1]]),
        ),
    ],
)
def test_no_constant_has_a_smaller_loss_than_the_best_one(outputs, targets):
    best = best_constant(outputs, targets).requires_grad_()
    loss = _loss(outputs, best.expand(len(targets), -1), targets)
    (gradient,) = torch.autograd.grad(loss, best)
    assert gradient.abs().max() < 1e-6
    assert best_constant(outputs, targets).isfinite().all()


def test_the_best_constant_of_numbers_is_their_mean():
    targets = torch.tensor([[1.0, 5.0], [2.0, NAN], [6.0, 7.0]])
    found = best_constant(Outputs(num_outputs=2), targets)
    assert found.tolist() == [3.0, 6.0]


def test_a_class_that_never_occurs_is_unlikely_not_impossible():
    rare = best_constant(Outputs(kind="multiclass", num_outputs=2), torch.tensor([0] * 99))
    assert rare.diff().exp().item() == pytest.approx(0.5 / 99)
    never = best_constant(Outputs(kind="binary"), torch.zeros(99, 1))
    assert never.sigmoid().item() == pytest.approx(0.5 / 99.5)
