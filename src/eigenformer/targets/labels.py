"""Targets that are labels, each yes or no, with the binary cross-entropy loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from typing_extensions import Self

from eigenformer.config import ConfigError
from eigenformer.targets.base import TargetLevel, weigh
from eigenformer.targets.categories import OF_RANKS, CategoryTarget

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LabelTarget(CategoryTarget):
    """One label (``binary``) or several labels (``multilabel``): 1 for yes, 0 for no."""

    kind: Literal["binary", "multilabel"] = "binary"

    one_column: ClassVar[tuple[str, ...]] = ("binary",)

    @classmethod
    def from_values(
        cls, kind: str, values: np.ndarray, names: Sequence[str], level: TargetLevel
    ) -> Self:
        if not are_labels(values):
            raise ConfigError(f"task: '{kind}', but not all targets are 0 or 1")
        return super().from_values(kind, values, names, level)

    def check(self) -> None:
        super().check()
        if self.kind == "binary" and self.num_outputs > 1:
            raise ConfigError(f"task: 'binary', but there are {self.num_outputs} targets")

    @classmethod
    def invalid(cls, value: float) -> str:
        return "" if value in (0, 1) else "neither 0 nor 1"

    @property
    def metrics(self) -> tuple[str, ...]:
        if self.of_nodes:
            return ("weighted_accuracy", "accuracy")
        return ("auroc", "average_precision", "accuracy")

    @property
    def num_classes(self) -> int:
        return 2

    def initial_bias(self, values: np.ndarray) -> Tensor | None:
        """Returns the log-odds of each label. A count of 0 is replaced by one half."""
        import torch

        yes, no = self._counts(values)
        if self.has_class_weights:  # (V − n_c) / V · n_c is equal for yes and no
            return torch.zeros_like(yes)
        return (yes.clamp(min=0.5) / no.clamp(min=0.5)).log()

    def constant(self, values: np.ndarray) -> Tensor:
        """Returns the more frequent answer for each label."""
        import torch

        yes, no = self._counts(values)
        return torch.where(yes > no, 1.0, -1.0)

    def _counts(self, values: np.ndarray) -> tuple[Tensor, Tensor]:
        import torch

        targets = self.as_tensor(torch.from_numpy(np.array(values)))
        yes = targets.double().nansum(0)
        return yes, (~targets.isnan()).sum(0) - yes

    def loss_sums(
        self, predictions: Tensor, targets: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        import torch.nn.functional as F

        known = self.known(targets)
        labels = targets.nan_to_num().clamp(min=0).to(predictions.dtype)
        losses = F.binary_cross_entropy_with_logits(predictions, labels, reduction="none")
        return self.class_sums(weigh(losses, weights), labels.long(), known)

    def total_weight(self, weights: Tensor, counts: Tensor) -> Tensor:
        return counts.sum()  # PyTorch's weighted binary cross-entropy is a plain mean

    def metric_pair(self, name: str, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if name in OF_RANKS:
            return predictions.sigmoid(), targets
        known = self.known(targets)
        return (predictions[known] > 0).long(), targets[known].long()

    def in_units(self, predictions: Tensor) -> Tensor:
        return predictions.sigmoid()

    def from_units(self, predictions: Tensor) -> Tensor:
        return predictions.logit(eps=1e-7)

    def scores(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the probability of the wrong answer."""
        wrong = np.where(targets > 0.5, 1 - predictions, predictions)
        return np.where(self.known(targets), wrong, np.nan)

    def outcomes(
        self, predictions: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        known = self.known(targets)
        return predictions[known], targets[known] > 0.5

    def single(self, column: int) -> Self | None:
        if self.num_outputs == 1:
            return None
        return replace(self, kind="binary", num_outputs=1, names=(self.column_names[column],))

    def interval_header(self) -> list[str]:
        return [f"answers_{name}" for name in self.column_names]

    @property
    def worded(self) -> tuple[str, ...]:
        return tuple(self.interval_header())

    def interval_cells(self, row: np.ndarray, bounds: np.ndarray) -> list[str]:
        return [
            " or ".join(a for a, wrong in (("no", p), ("yes", 1 - p)) if wrong <= bound)
            for p, bound in zip(row.tolist(), bounds.tolist(), strict=True)
        ]

    def error(self, predictions: Tensor, targets: Tensor) -> float:
        import torch

        known = self.known(targets)
        predictions, targets = predictions[known], targets[known]
        right = torch.where(targets > 0.5, predictions, 1 - predictions)
        return float(-right.clamp(min=1e-12).log().mean())

    def header(self) -> list[str]:
        return [f"probability_{name}" for name in self.column_names]

    def wrong(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if not self.of_nodes:
            return super().wrong(predictions, targets)
        return np.flatnonzero(
            (self.known(targets) & ((predictions > 0.5) != (targets > 0.5))).any(1)
        )

    def overview(self, predictions: np.ndarray) -> dict[str, float]:
        names, shares = self.shown_names, predictions[0]
        if self.of_nodes:
            names = tuple(f"nodes that are {name}" for name in names)
            shares = (predictions > 0.5).mean(0)
        return dict(zip(names, shares.tolist(), strict=True))

    def show_truth(self, value: float) -> str:
        return "yes" if value > 0.5 else "no"


def are_labels(values: np.ndarray) -> bool:
    """Whether all known values are 0 or 1."""
    return bool(np.isin(values[~np.isnan(values)], (0, 1)).all())
