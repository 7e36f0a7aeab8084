"""Targets that are classes or labels: losses, class weights, words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Batch, Data

from eigenformer.config import ConfigError
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget, make_target
from eigenformer.targets.categories import class_weights

NAN = float("nan")


def _loss(outputs, predictions, targets):
    return outputs.mean_loss(*outputs.loss_sums(predictions, targets))


def test_multilabel_is_binary_cross_entropy_of_the_known_labels():
    predictions = torch.randn(5, 3)
    targets = torch.tensor([[0, 1, NAN]]).repeat(5, 1)
    expected = F.binary_cross_entropy_with_logits(predictions[:, :2], targets[:, :2])
    outputs = LabelTarget(num_outputs=3, kind="multilabel")
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_graph_classes_are_plain_cross_entropy():
    predictions, targets = torch.randn(7, 4), torch.randint(4, (7,))
    targets[2] = -1
    expected = F.cross_entropy(predictions, targets, ignore_index=-1)
    outputs = ClassTarget(num_outputs=4)
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_node_classes_weigh_v_minus_n_over_v():
    targets = torch.tensor([0, 0, 0, 1, 2, 2])
    predictions = torch.randn(6, 4)
    weights = torch.tensor([3 / 6, 5 / 6, 4 / 6, 1.0])
    expected = F.cross_entropy(predictions, targets, weight=weights)
    outputs = ClassTarget(level="node", num_outputs=4)
    torch.testing.assert_close(_loss(outputs, predictions, targets), expected)


def test_node_labels_weigh_v_minus_n_over_v():
    targets = torch.tensor([[0.0], [0], [0], [1]])
    predictions = torch.randn(4, 1)
    weights = torch.tensor([[0.25], [0.25], [0.25], [0.75]])
    expected = F.binary_cross_entropy_with_logits(predictions, targets, weight=weights)
    torch.testing.assert_close(_loss(LabelTarget(level="node"), predictions, targets), expected)


def test_classes_and_labels_of_graphs_can_be_balanced():
    targets = torch.tensor([0, 0, 0, 1])
    predictions = torch.randn(4, 2)
    balanced = ClassTarget(num_outputs=2).learned(class_balance=True)
    weights = torch.tensor([0.25, 0.75])
    expected = F.cross_entropy(predictions, targets, weight=weights)
    torch.testing.assert_close(_loss(balanced, predictions, targets), expected)
    assert balanced.learned() == ClassTarget(num_outputs=2)
    labels = LabelTarget().learned(class_balance=True)
    assert labels.initial_bias(np.array([0.0, 0, 0, 1])).tolist() == [0]  # both count alike
    with pytest.raises(ConfigError, match="loss: 'l2' cannot be used for binary"):
        LabelTarget().learned("l2")


def test_class_weights_of_nothing_are_finite():
    assert class_weights(torch.zeros(3)).isfinite().all()


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_losses_add_up_over_processes(level, kind):
    outputs = make_target(kind, level=level, num_outputs=3 if kind == "multiclass" else 1)
    predictions = torch.randn(8, outputs.num_outputs, dtype=torch.float64)
    targets = torch.randint(3, (8,))
    if kind != "multiclass":
        targets = (targets > 0).double().view(-1, 1)
    sums, counts = outputs.loss_sums(predictions, targets)
    parts = [outputs.loss_sums(predictions[i::3], targets[i::3]) for i in range(3)]
    torch.testing.assert_close(parts[0][0] + parts[1][0] + parts[2][0], sums)
    losses = [outputs.mean_loss(part, counts) for part, _ in parts]
    torch.testing.assert_close(sum(losses), outputs.mean_loss(sums, counts))


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (ClassTarget(num_outputs=3), torch.tensor([0, 0, 0, 1, 2, 2, -1])),
        (ClassTarget(level="node", num_outputs=3), torch.tensor([0, 0, 0, 0, 1, 2, 2, -1])),
        (LabelTarget(), torch.tensor([[1.0], [0], [0], [0], [NAN]])),
        (LabelTarget(level="node"), torch.tensor([[1.0], [0], [0], [0], [NAN]])),
        (
            LabelTarget(num_outputs=2, kind="multilabel"),
            torch.tensor([[1.0, 0], [0, 0], [0, NAN], [0, 1]]),
        ),
    ],
)
def test_no_constant_has_a_smaller_loss_than_the_best_one(outputs, targets):
    best = outputs.initial_bias(targets.numpy()).requires_grad_()
    loss = _loss(outputs, best.expand(len(targets), -1), targets)
    (gradient,) = torch.autograd.grad(loss, best)
    assert gradient.abs().max() < 1e-6
    assert outputs.initial_bias(targets.numpy()).isfinite().all()


def test_a_class_that_never_occurs_is_unlikely_not_impossible():
    rare = ClassTarget(num_outputs=2).initial_bias(torch.tensor([0] * 99).numpy())
    assert rare.diff().exp().item() == pytest.approx(0.5 / 99)
    never = LabelTarget().initial_bias(torch.zeros(99, 1).numpy())
    assert never.sigmoid().item() == pytest.approx(0.5 / 99.5)


def test_the_constant_prediction_is_the_most_frequent_class():
    classes = np.array([2, 0, 2, -1, -1, -1])
    assert ClassTarget(level="node", num_outputs=3).constant(classes).tolist() == [0, 0, 1]
    labels = np.array([[1, 0], [1, 0], [0, NAN]], np.float32)
    target = LabelTarget(num_outputs=2, kind="multilabel")
    assert target.constant(labels).tolist() == [1, -1]


def test_classes_of_other_data_get_the_numbers_of_the_model():
    ours, theirs = (ClassTarget(num_outputs=2, names=names) for names in (("a", "b"), ("b", "a")))
    assert ours.renumbered(theirs, np.array([0, 1, -1])).tolist() == [1, 0, -1]
    with pytest.raises(ConfigError, match="class 'c'"):
        ours.renumbered(ClassTarget(num_outputs=1, names=("c",)), np.array([0]))


def test_categories_in_words():
    classes = ClassTarget(num_outputs=2, names=("cat", "dog"))
    assert classes.said(np.array([0.3, 0.7])) == "dog (70.0 %)"
    assert [classes.truth(np.array(i)) for i in (0, -1)] == ["cat", ""]
    assert classes.header() == ["predicted_class", "probability_cat", "probability_dog"]
    assert classes.cells(np.array([0.25, 0.75])) == ["dog", "0.25", "0.75"]
    labels = LabelTarget(num_outputs=2, names=("active", "toxic"), kind="multilabel")
    assert labels.said(np.array([0.1, 0.9])) == "active 10.0 %, toxic 90.0 %"
    assert labels.truth(np.array([1.0, NAN])) == "active yes, toxic unknown"


def test_wrong_nodes():
    predictions, targets = np.array([[0.9], [0.2], [0.8]]), np.array([[1.0], [1.0], [NAN]])
    assert LabelTarget(level="node").wrong(predictions, targets).tolist() == [1]
    assert not len(LabelTarget().wrong(predictions, targets))
    classes = ClassTarget(level="node", num_outputs=2)
    assert classes.wrong(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([0, 0])).tolist() == [0]


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("kind", ["multiclass", "multilabel", "regression"])
def test_rows_have_weights(kind, level):
    """The weighted sum of the losses of single rows. Weights do not change what is counted."""
    rows, weights = 7, torch.tensor([0.0, 1.0, 2.5, 1.0, 0.5, 3.0, 1.0])
    target = {
        "multiclass": ClassTarget(level, num_outputs=3),
        "multilabel": LabelTarget(level, num_outputs=3, kind="multilabel"),
        "regression": NumberTarget(level, num_outputs=3),
    }[kind]
    predictions = torch.randn(rows, 3)
    values = (
        torch.randint(3, (rows,)) if kind == "multiclass" else (torch.rand(rows, 3) > 0.5) * 1.0
    )
    sums, counts = target.loss_sums(predictions, values, weights)
    alone = [target.loss_sums(predictions[i : i + 1], values[i : i + 1]) for i in range(rows)]
    expected = sum(w * row for w, (row, _) in zip(weights, alone, strict=True))
    torch.testing.assert_close(sums, expected)
    assert counts.tolist() == sum(count for _, count in alone).tolist()
    assert counts.tolist() == target.loss_sums(predictions, values)[1].tolist()


def test_nodes_have_the_weight_of_their_graph():
    batch = Batch.from_data_list(
        [Data(num_nodes=n, row_weight=torch.tensor([w])) for n, w in ((2, 0.5), (3, 2.0))]
    )
    assert NumberTarget("graph").row_weights(batch).tolist() == [0.5, 2.0]
    assert NumberTarget("node").row_weights(batch).tolist() == [0.5, 0.5, 2.0, 2.0, 2.0]
    del batch.row_weight
    assert NumberTarget("node").row_weights(batch) is None
