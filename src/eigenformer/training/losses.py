"""The paper's losses, with missing labels left out and sums that add up over processes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenformer.model_folder import Outputs

Sum = Callable[[Tensor], Tensor]
"""Adds a tensor up over all processes."""


def loss_terms(
    outputs: Outputs, predictions: Tensor, targets: Tensor, total: Sum = lambda x: x
) -> tuple[Tensor, Tensor]:
    r"""The sum of the losses of this process's labels, and what is to be divided by.

    Numbers have the L1 loss, classes cross-entropy, labels binary cross-entropy. For nodes, class
    c weighs :math:`(V - n_c) / V` among the V nodes of the whole batch, so that a rare class is
    not drowned. The loss is the first term over the second, each added up over all processes.

    Args:
        outputs: What the predictions mean.
        predictions: ``[rows, num_outputs]``; numbers still standardised.
        targets: Classes ``[rows]``, below 0 for a missing one; else ``[rows, num_outputs]`` with
            NaN for a missing one, numbers standardised.
        total: Adds up over processes what the class weights need.
    """
    if outputs.kind == "multiclass":
        return _class_terms(outputs, predictions, targets, total)
    known = ~targets.isnan()
    predictions, targets = predictions[known], targets[known].to(predictions.dtype)
    count = known.sum().to(predictions.dtype)
    if outputs.kind == "regression":
        return (predictions - targets).abs().sum(), count
    losses = F.binary_cross_entropy_with_logits(predictions, targets, reduction="none")
    if outputs.level == "node":
        counts = torch.bincount(targets.long(), minlength=2)
        losses = losses * class_weights(total(counts)).to(losses.dtype)[targets.long()]
    return losses.sum(), count


def class_weights(counts: Tensor) -> Tensor:
    """(V − n_c) / V for each class c with n_c of V nodes; in float64."""
    size = counts.sum().clamp(min=1).double()
    return (size - counts) / size


def _class_terms(
    outputs: Outputs, predictions: Tensor, targets: Tensor, total: Sum
) -> tuple[Tensor, Tensor]:
    known = targets >= 0
    predictions, targets = predictions[known], targets[known]
    losses = F.cross_entropy(predictions, targets, reduction="none")
    if outputs.level == "graph":
        return losses.sum(), known.sum().to(losses.dtype)
    counts = torch.bincount(targets, minlength=outputs.num_outputs)
    weights = class_weights(total(counts)).to(losses.dtype)[targets]
    # As PyTorch's weighted cross-entropy: a weighted mean, divided by the weights.
    return (losses * weights).sum(), weights.sum()
