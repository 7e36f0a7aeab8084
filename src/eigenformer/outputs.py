"""What a model's numbers mean, and what such numbers may be judged by. Imports no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from eigenformer.config import ConfigError, Settings
from eigenformer.options import MetricName, TargetKind

if TYPE_CHECKING:
    from torch import Tensor

LOWER_IS_BETTER: tuple[MetricName, ...] = ("mae", "rmse")
"""The metrics that are errors; of all others, more is better."""

# By kind and level: what such predictions may be judged by; the first is what is usual.
_LABELS: dict[str, tuple[MetricName, ...]] = {
    "graph": ("auroc", "average_precision", "accuracy"),
    "node": ("weighted_accuracy", "accuracy"),
}
_METRICS: dict[str, dict[str, tuple[MetricName, ...]]] = {
    "regression": dict.fromkeys(("graph", "node"), ("mae", "rmse", "r2")),
    "multiclass": {
        "graph": ("accuracy", "weighted_accuracy", "f1"),
        "node": ("weighted_accuracy", "accuracy", "f1"),
    },
    "binary": _LABELS,
    "multilabel": _LABELS,
}


@dataclass(frozen=True)
class Outputs(Settings):
    """What a model's numbers mean.

    Args:
        level: Whether they are about a graph or about each of its nodes.
        kind: What they are.
        num_outputs: How many.
        names: The targets' names, or the classes'.
        mean: Added to each standardised number to have it in the user's units.
        scale: What each is multiplied by first.
        judged_by: The metric that counts; None for what is usual.
    """

    level: Literal["graph", "node"] = "graph"
    kind: TargetKind = "regression"
    num_outputs: int = 1
    names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    judged_by: MetricName | None = None

    def check(self) -> None:
        if self.judged_by is not None and self.judged_by not in self.metrics:
            what = f"metric: '{self.judged_by}' does not suit {self.level} {self.kind}"
            raise ConfigError(f"{what}; take one of {', '.join(self.metrics)}")

    @property
    def metric(self) -> MetricName:
        """The metric that such models are judged by."""
        return self.judged_by or self.metrics[0]

    @property
    def metrics(self) -> tuple[MetricName, ...]:
        """All metrics that say something about them."""
        two = self.kind == "multiclass" and self.level == "graph" and self.num_outputs == 2
        return (*_METRICS[self.kind][self.level], *(("auroc",) if two else ()))

    @property
    def higher_is_better(self) -> bool:
        return self.metric not in LOWER_IS_BETTER

    def standardise(self, targets: Tensor) -> Tensor:
        """The user's units → what the model learns."""
        if not self.mean:
            return targets
        return (targets - targets.new_tensor(self.mean)) / targets.new_tensor(self.scale)

    def restore(self, predictions: Tensor) -> Tensor:
        """What the model predicts → the user's units."""
        if not self.mean:
            return predictions
        scale, mean = predictions.new_tensor(self.scale), predictions.new_tensor(self.mean)
        return predictions * scale + mean

    def same_task(self, other: Outputs) -> bool:
        """Whether a head for one serves the other."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self.level, self.kind, self.num_outputs, self.names
