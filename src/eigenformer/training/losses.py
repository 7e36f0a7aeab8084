"""The paper's losses, as sums that add up over batches and processes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenformer.outputs import Outputs


def loss_sums(outputs: Outputs, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The labels' losses added up, and how many labels there are; a missing label is none.

    Numbers have the L1 loss, classes cross-entropy, labels binary cross-entropy. Each of the two
    has one entry, or for nodes, whose classes have weights, one per class. See :func:`mean_loss`.

    Args:
        outputs: What the predictions mean.
        predictions: ``[rows, num_outputs]``; numbers still standardised.
        targets: Classes ``[rows]``, below 0 for a missing one; else ``[rows, num_outputs]`` with
            NaN for a missing one, numbers standardised.
    """
    if predictions.dtype in (torch.float16, torch.bfloat16):
        predictions = predictions.float()  # too short for a sum
    known = targets >= 0 if outputs.kind == "multiclass" else ~targets.isnan()
    predictions, targets = predictions[known], targets[known]
    if outputs.kind == "multiclass":
        losses = F.cross_entropy(predictions, targets, reduction="none")
    elif outputs.kind == "regression":
        losses = (predictions - targets.to(predictions.dtype)).abs()
    else:
        labels = targets.to(predictions.dtype)
        losses = F.binary_cross_entropy_with_logits(predictions, labels, reduction="none")
    if not has_class_weights(outputs):
        return losses.sum().view(1), known.sum().view(1)
    classes = targets.long()
    counts = torch.bincount(classes, minlength=num_classes(outputs))
    return losses.new_zeros(len(counts)).index_add(0, classes, losses), counts


def mean_loss(outputs: Outputs, sums: Tensor, counts: Tensor) -> Tensor:
    r"""The loss, of what :func:`loss_sums` gives for the labels of a whole batch.

    For nodes, class c weighs :math:`(V - n_c) / V` among the V nodes, so that a rare class is not
    drowned. Of several processes, each may give its own ``sums`` with the ``counts`` of all: the
    results add up to the loss.
    """
    weights, counts = class_weights(counts).to(sums.dtype), counts.to(sums.dtype)
    if not has_class_weights(outputs):
        return sums.sum() / counts.sum().clamp(min=1)
    # As PyTorch's: weighted cross-entropy is a weighted mean, weighted binary cross-entropy is not.
    total = (weights * counts).sum() if outputs.kind == "multiclass" else counts.sum()
    return (weights * sums).sum() / total.clamp(min=1e-12)


def best_constant(outputs: Outputs, targets: Tensor) -> Tensor:
    """The constant prediction that suits the targets: a head's bias to start from.

    Numbers: the mean of the standardised targets. Classes: the logarithms of their frequencies,
    with the loss's class weights. Labels: their log-odds. A class that never occurs counts half.

    Args:
        outputs: What is predicted.
        targets: As for :func:`loss_sums`.
    """
    if outputs.kind == "regression":
        return targets.double().nanmean(0)
    if outputs.kind == "multiclass":
        counts = torch.bincount(targets[targets >= 0], minlength=outputs.num_outputs).double()
        weights = class_weights(counts) if has_class_weights(outputs) else torch.ones_like(counts)
        frequent = (counts.clamp(min=0.5) * weights.clamp(min=1e-12)).log()
        return frequent - frequent.mean()
    yes = targets.double().nansum(0)
    no = (~targets.isnan()).sum(0) - yes
    if has_class_weights(outputs):  # (V − n_c) / V times n_c, for yes and no, are the same
        return torch.zeros_like(yes)
    return (yes.clamp(min=0.5) / no.clamp(min=0.5)).log()


def has_class_weights(outputs: Outputs) -> bool:
    """Whether rare classes weigh more: those of nodes."""
    return outputs.level == "node" and outputs.kind != "regression"


def num_classes(outputs: Outputs) -> int:
    """How many classes there are; a label has two, yes and no."""
    return outputs.num_outputs if outputs.kind == "multiclass" else 2


def class_weights(counts: Tensor) -> Tensor:
    """(V − n_c) / V for each class c with n_c of V nodes; in float64."""
    size = counts.sum().clamp(min=1).double()
    return (size - counts) / size
