"""The paper's metrics: one per kind of task, each a torchmetrics metric."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanAbsoluteError, Metric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MultilabelAveragePrecision,
)
from torchmetrics.utilities import dim_zero_cat

from eigenformer.model_folder import Outputs


class MeanRecall(MulticlassConfusionMatrix):
    """The mean of the per-class recalls, over the classes that occur.

    What the benchmarks call weighted accuracy. Plain accuracy on PATTERN, where one class is
    five times as frequent, reads some four points too high.
    """

    def compute(self) -> Tensor:
        confusion = super().compute().double()
        count = confusion.sum(1)
        return (confusion.diagonal() / count)[count > 0].mean().float()


class MeanAveragePrecision(MultilabelAveragePrecision):
    """The average precision of each label, then their mean; labels with no positive are skipped.

    torchmetrics' own mean counts such a label as 0.
    """

    def __init__(self, num_labels: int, **arguments: Any) -> None:
        super().__init__(num_labels, average="none", **arguments)

    def compute(self) -> Tensor:  # type: ignore[override]
        values = torch.as_tensor(super().compute()).view(-1)
        positive = (dim_zero_cat(self.target).view(-1, len(values)) == 1).any(0)
        return values[positive].mean()


class Score(torch.nn.Module):
    """Gathers predictions and targets and says how good they are.

    Args:
        outputs: What the predictions mean.
    """

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        self.outputs = outputs
        self.metric = _metric(outputs)

    @torch.no_grad()
    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Takes in what the model gave for a batch, and the targets in the user's units."""
        kind, level = self.outputs.kind, self.outputs.level
        predictions = predictions.detach().float()
        if kind == "regression":
            predictions, known = self.outputs.restore(predictions), ~targets.isnan()
            self.metric.update(predictions[known], targets[known].to(predictions.dtype))
        elif kind == "multiclass":
            known = targets >= 0
            self.metric.update(predictions[known].argmax(1), targets[known])
        elif level == "node":
            known = ~targets.isnan()
            self.metric.update((predictions[known] > 0).long(), targets[known].long())
        else:
            labels = torch.where(targets.isnan(), -1, targets).long()
            self.metric.update(predictions.sigmoid(), labels)

    def compute(self) -> float:
        """The metric over everything since the last reset, on all processes; NaN without data."""
        with warnings.catch_warnings():  # labels with no positive are left out: no news
            warnings.simplefilter("ignore")
            return float(self.metric.compute())

    def reset(self) -> None:
        """Forgets what was gathered."""
        self.metric.reset()


def _metric(outputs: Outputs) -> Metric:
    classes = max(outputs.num_outputs, 2)
    # The targets are checked once when the data is read, not in every step.
    options: dict[str, Any] = {"validate_args": False}
    if outputs.kind == "regression":
        return MeanAbsoluteError()
    if outputs.level == "node":
        return MeanRecall(classes, **options)
    if outputs.kind == "multiclass":
        return MulticlassAccuracy(classes, average="micro", **options)
    return MeanAveragePrecision(outputs.num_outputs, ignore_index=-1, **options)
