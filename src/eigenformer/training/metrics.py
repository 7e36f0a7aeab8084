"""What models are judged by: torchmetrics' metrics, with missing labels left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
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

from eigenformer.options import MetricName
from eigenformer.outputs import Outputs
from eigenformer.training.losses import has_class_weights, mean_loss, num_classes


class MeanRecall(MulticlassConfusionMatrix):
    """The mean of the per-class recalls, over the classes that occur.

    What the benchmarks call weighted accuracy. Plain accuracy on PATTERN, where one class is
    five times as frequent, reads some four points too high.
    """

    def compute(self) -> Tensor:
        confusion = super().compute().double()
        count = confusion.sum(1)
        return (confusion.diagonal() / count)[count > 0].mean().float()


class MeanOverLabels(Metric):
    """A metric of each label by itself, then their mean; labels it says nothing about are skipped.

    torchmetrics' own mean counts a label without a positive as 0, and fails without any label.

    Args:
        num_labels: How many labels there are.
        metric: The metric, of probabilities and labels.
        needed: The values that a label must take to have one.
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
        """Takes in ``[rows, labels]`` of both, with NaN for a missing label."""
        # Flat and in one type, as torchmetrics gathers them from a process that had no graph.
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


class MeanR2(Metric):
    """The coefficient of determination of each target, then their mean.

    torchmetrics' own knows no missing targets. One that is always the same has none.

    Args:
        num_outputs: How many targets there are.
    """

    count: Tensor
    total: Tensor
    squares: Tensor
    errors: Tensor

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        for name in ("count", "total", "squares", "errors"):
            zeros = torch.zeros(num_outputs, dtype=torch.float64)
            self.add_state(name, zeros, dist_reduce_fx="sum")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Takes in ``[rows, targets]``, with NaN for a missing target."""
        self.count += (~targets.isnan()).sum(0)
        self.total += targets.double().nansum(0)
        self.squares += targets.double().square().nansum(0)
        self.errors += (predictions - targets).double().square().nansum(0)

    def compute(self) -> Tensor:
        spread = self.squares - self.total**2 / self.count
        return (1 - self.errors / spread)[spread > 1e-12 * self.squares].mean()


class Score(nn.Module):
    """Gathers predictions and targets and says how good they are.

    Args:
        outputs: What the predictions mean.
        metrics: What to compute (default: what such models are judged by).
    """

    def __init__(self, outputs: Outputs, metrics: Sequence[MetricName] | None = None) -> None:
        super().__init__()
        self.outputs = outputs
        names = (outputs.metric,) if metrics is None else metrics
        self.metrics = nn.ModuleDict({name: _metric(name, outputs) for name in names})

    @torch.no_grad()
    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Takes in what the model gave for a batch, and the targets in the user's units."""
        outputs, predictions = self.outputs, predictions.detach()
        if predictions.dtype in (torch.float16, torch.bfloat16):
            predictions = predictions.float()
        known = targets >= 0 if outputs.kind == "multiclass" else ~targets.isnan()
        if outputs.kind == "regression":
            predictions = outputs.restore(predictions)
            pair = predictions[known], targets[known].to(predictions.dtype)
        elif outputs.kind == "multiclass":
            pair = predictions[known].argmax(1), targets[known]
        else:
            pair = (predictions[known] > 0).long(), targets[known].long()
        for name, metric in self.metrics.items():
            if name in _OF_RANKS:
                if outputs.kind == "multiclass":  # of two classes the second is the label
                    labels = torch.where(known, targets, torch.nan)[:, None]
                    cast(Metric, metric).update(predictions.softmax(1)[:, 1:], labels)
                else:
                    cast(Metric, metric).update(predictions.sigmoid(), targets)
            elif name == "r2":
                cast(Metric, metric).update(predictions, targets.to(predictions.dtype))
            elif pair[0].numel():
                cast(Metric, metric).update(*pair)

    def compute(self) -> float:
        """What the model is judged by, over everything since the last reset, on all processes."""
        return self.compute_all()[self.outputs.metric]

    def compute_all(self) -> dict[str, float]:
        """Every metric; without data NaN, but 0 for accuracies and F1."""
        with warnings.catch_warnings():  # labels with no positive are left out: no news
            warnings.simplefilter("ignore")
            return {name: float(cast(Metric, m).compute()) for name, m in self.metrics.items()}

    def reset(self) -> None:
        """Forgets what was gathered."""
        for metric in self.metrics.values():
            cast(Metric, metric).reset()


class MeanLoss(Metric):
    """The loss over all labels since the last reset, on all processes.

    Class weights, where there are any, are those of all these labels: the same however they were
    shared out among batches and processes.

    Args:
        outputs: What the predictions mean.
    """

    sums: Tensor
    counts: Tensor

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        self.outputs = outputs
        size = num_classes(outputs) if has_class_weights(outputs) else 1
        zeros = torch.zeros(size, dtype=torch.float64)
        self.add_state("sums", zeros, dist_reduce_fx="sum")
        self.add_state("counts", zeros.clone(), dist_reduce_fx="sum")

    def update(self, sums: Tensor, counts: Tensor) -> None:
        """Takes in what :func:`loss_sums` gives."""
        self.sums += sums.detach()
        self.counts += counts

    def compute(self) -> Tensor:
        nothing = self.sums.new_tensor(float("nan"))
        loss = mean_loss(self.outputs, self.sums, self.counts)
        return loss if self.counts.sum() > 0 else nothing


_OF_RANKS = ("auroc", "average_precision")


def _metric(name: MetricName, outputs: Outputs) -> Metric:
    # The targets are checked once when the data is read, not in every step.
    options: dict[str, Any] = {"validate_args": False}
    labels = 1 if outputs.kind == "multiclass" else outputs.num_outputs
    classes = max(2, num_classes(outputs))
    makers: dict[str, Callable[[], Metric]] = {
        "mae": MeanAbsoluteError,
        "rmse": lambda: MeanSquaredError(squared=False),
        "r2": lambda: MeanR2(outputs.num_outputs),
        "accuracy": lambda: MulticlassAccuracy(classes, average="micro", **options),
        "weighted_accuracy": lambda: MeanRecall(classes, **options),
        "f1": lambda: MulticlassF1Score(classes, average="macro", **options),
        "auroc": lambda: MeanOverLabels(labels, binary_auroc, (0, 1)),
        "average_precision": lambda: MeanOverLabels(labels, binary_average_precision, (1,)),
    }
    return makers[name]()
