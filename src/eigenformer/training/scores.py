"""The loss and the metrics, accumulated over batches and processes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from eigenformer.targets import Target
from eigenformer.targets.metrics import Sums


class Score(nn.Module):
    """Accumulates predictions and targets and computes metrics.

    Args:
        target: What is predicted.
        metrics: The metrics to compute (default: the metric that selects the best epoch).
    """

    def __init__(self, target: Target, metrics: Sequence[str] | None = None) -> None:
        super().__init__()
        self.target = target
        names = (target.metric,) if metrics is None else metrics
        self.metrics = nn.ModuleDict({name: target.make_metric(name) for name in names})
        self.not_finite = _NotFinite()

    @torch.no_grad()
    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Adds the model's output for a batch, and the targets in the user's units."""
        predictions = full_precision(predictions.detach())
        self.not_finite.update(predictions)
        for name, metric in self.metrics.items():
            pair = self.target.metric_pair(name, predictions, targets)
            if pair[0].numel():
                cast(Metric, metric).update(*pair)

    def compute(self) -> float:
        """Returns ``target.metric`` since the last reset, over all processes."""
        return self.compute_all()[self.target.metric]

    def compute_all(self) -> dict[str, float]:
        """Returns all metrics. Without data they are NaN, but accuracies and F1 are 0.

        All metrics are NaN if a prediction was infinite or NaN. Many metrics depend only on the
        order of predictions and would accept such a prediction like any other.
        """
        with warnings.catch_warnings():  # about labels without a positive, which are skipped
            warnings.simplefilter("ignore")
            values = {name: float(cast(Metric, m).compute()) for name, m in self.metrics.items()}
        return dict.fromkeys(values, float("nan")) if self.invalid() else values

    def invalid(self) -> int:
        """Returns the number of predictions since the last reset that were infinite or NaN."""
        return int(self.not_finite.compute())

    def reset(self) -> None:
        """Discards all accumulated values."""
        for metric in (*self.metrics.values(), self.not_finite):
            cast(Metric, metric).reset()


class MeanLoss(Sums):
    """The loss over all targets since the last reset, over all processes.

    Class weights are computed from all these targets, regardless of how they were distributed over
    batches and processes.

    Args:
        target: What is predicted.
    """

    sums: Tensor
    counts: Tensor

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.add_sums(target.loss_size, "sums", "counts")

    def update(self, sums: Tensor, counts: Tensor) -> None:
        """Adds the sums and counts that :meth:`Target.loss_sums` returns."""
        self.sums += sums.detach()
        self.counts += counts

    def compute(self) -> Tensor:
        nothing = self.sums.new_tensor(float("nan"))
        loss = self.target.mean_loss(self.sums, self.counts)
        return loss if self.counts.sum() > 0 else nothing


class _NotFinite(Metric):
    """Counts the predictions that are infinite or NaN."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, predictions: Tensor) -> None:
        self.count += (~predictions.isfinite()).sum()

    def compute(self) -> Tensor:
        return self.count


def full_precision(predictions: Tensor) -> Tensor:
    """Converts half-precision predictions to float32: half precision is too short for sums."""
    half = predictions.dtype in (torch.float16, torch.bfloat16)
    return predictions.float() if half else predictions
