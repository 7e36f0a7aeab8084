"""Metrics based on torchmetrics that skip missing labels. Imports PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.functional.classification import binary_auroc, binary_average_precision
from torchmetrics.utilities import dim_zero_cat

from eigenformer.transfer import widened

# The targets are checked once when the data is read, not in every step.
_UNCHECKED: dict[str, Any] = {"validate_args": False}


def number_metric(name: str, num_outputs: int) -> Metric:
    """Returns a metric of predicted numbers."""
    makers: dict[str, Callable[[], Metric]] = {
        "mae": MeanAbsoluteError,
        "rmse": lambda: MeanSquaredError(squared=False),
        "r2": lambda: MeanR2(num_outputs),
    }
    return makers[name]()


def class_metric(name: str, num_classes: int) -> Metric:
    """Returns a metric of predicted classes."""
    makers: dict[str, Callable[[], Metric]] = {
        "accuracy": lambda: MulticlassAccuracy(num_classes, average="micro", **_UNCHECKED),
        "weighted_accuracy": lambda: MeanRecall(num_classes, **_UNCHECKED),
        "f1": lambda: MulticlassF1Score(num_classes, average="macro", **_UNCHECKED),
    }
    return makers[name]()


def rank_metric(name: str, num_labels: int) -> Metric:
    """Returns a metric of label probabilities."""
    makers: dict[str, Callable[[], Metric]] = {
        "auroc": lambda: MeanOverLabels(num_labels, binary_auroc, (0, 1)),
        "average_precision": lambda: MeanOverLabels(num_labels, binary_average_precision, (1,)),
    }
    return makers[name]()


class MeanRecall(MulticlassConfusionMatrix):
    """The mean of the per-class recalls, over the classes that occur.

    The benchmarks call it weighted accuracy. On PATTERN, where one class is five times as
    frequent, plain accuracy is about four points higher.
    """

    def compute(self) -> Tensor:
        confusion = widened(super().compute())
        count = confusion.sum(1)
        return (confusion.diagonal() / count)[count > 0].mean().float()


class MeanOverLabels(Metric):
    """The mean of a metric over labels. Labels for which the metric is undefined are skipped.

    torchmetrics' own mean counts a label without a positive as 0, and fails without any label.

    Args:
        num_labels: The number of labels.
        metric: The metric as a function of probabilities and labels.
        needed: The values that must occur in a label for its metric to be defined.
    """

    probabilities: list[Tensor]
    labels: list[Tensor]

    def __init__(
        self, num_labels: int, metric: Callable[[Tensor, Tensor], Tensor], needed: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.num_labels, self.metric, self.needed = num_labels, metric, needed
        self.add_state("probabilities", [], dist_reduce_fx="cat")
        self.add_state("labels", [], dist_reduce_fx="cat")

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Adds probabilities and labels, both ``[rows, labels]``, NaN for missing labels."""
        # Flat and of one type, as torchmetrics gathers them from a process without graphs.
        self.probabilities.append(probabilities.float().flatten())
        self.labels.append(labels.float().flatten())

    def compute(self) -> Tensor:
        if not len(self.labels):
            return torch.tensor(torch.nan)
        pair = (dim_zero_cat(state) for state in (self.probabilities, self.labels))
        values = []
        for guess, labels in zip(*(part.view(-1, self.num_labels).T for part in pair), strict=True):
            known = ~labels.isnan()
            if all((labels == value).any() for value in self.needed):
                values.append(self.metric(guess[known], labels[known].long()))
        return torch.stack(values).mean() if values else torch.tensor(torch.nan)


class Sums(Metric):
    """A metric of sums in float64, or in float32 on a device that has no float64."""

    def add_sums(self, size: int, *names: str) -> None:
        """Adds states of this size that start at 0 and are added over processes."""
        for name in names:
            self.add_state(name, torch.zeros(size, dtype=torch.float64), dist_reduce_fx="sum")

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> nn.Module:
        try:
            fn(torch.zeros(1, dtype=torch.float64))
        except TypeError:  # a device that has no float64
            self._defaults = {n: cast(Tensor, x).float() for n, x in self._defaults.items()}
            for name in self._defaults:
                setattr(self, name, getattr(self, name).float())
        return super()._apply(fn, *args, **kwargs)


class MeanR2(Sums):
    """The mean of the coefficients of determination of all targets.

    torchmetrics' own metric does not support missing targets. Constant targets are skipped.

    Args:
        num_outputs: The number of targets.
    """

    count: Tensor
    total: Tensor
    squares: Tensor
    errors: Tensor

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.add_sums(num_outputs, "count", "total", "squares", "errors")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Adds predictions and targets, both ``[rows, targets]``, NaN for missing targets."""
        missing = targets.isnan()
        self.count += (~missing).sum(0)
        self.total += widened(targets).nansum(0)
        self.squares += widened(targets).square().nansum(0)
        # A missing target has no error. A NaN prediction stays NaN.
        self.errors += widened((predictions - targets).masked_fill(missing, 0)).square().sum(0)

    def compute(self) -> Tensor:
        spread = self.squares - self.total**2 / self.count
        return (1 - self.errors / spread)[spread > 1e-12 * self.squares].mean()
