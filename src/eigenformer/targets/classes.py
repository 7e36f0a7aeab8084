"""Targets that are one of several classes, with the cross-entropy loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from typing_extensions import Self

from eigenformer.config import ConfigError
from eigenformer.nearest import unknown
from eigenformer.targets.base import Target, TargetLevel, show_share, weigh
from eigenformer.targets.categories import OF_RANKS, CategoryTarget, class_weights

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ClassTarget(CategoryTarget):
    """One of ``num_outputs`` classes, numbered from 0. A negative target is missing."""

    kind: Literal["multiclass"] = "multiclass"

    from_words: ClassVar[bool] = True
    one_column: ClassVar[tuple[str, ...]] = ("multiclass",)

    @classmethod
    def from_values(
        cls, kind: str, values: np.ndarray, names: Sequence[str], level: TargetLevel
    ) -> Self:
        if values.ndim != 1 or values.dtype.kind not in "biu" or values.min(initial=0) < 0:
            raise ConfigError(f"task: '{kind}' needs one non-negative whole number per row")
        outputs = int(values.max(initial=0)) + 1
        return cls(level=level, num_outputs=outputs, names=tuple(names))

    @property
    def metrics(self) -> tuple[str, ...]:
        if self.of_nodes:
            return ("weighted_accuracy", "accuracy", "f1")
        two = ("auroc",) if self.num_outputs == 2 else ()
        return ("accuracy", "weighted_accuracy", "f1", *two)

    @property
    def num_classes(self) -> int:
        return self.num_outputs

    @property
    def num_values(self) -> int:
        return 1

    def as_tensor(self, values: Tensor) -> Tensor:
        """Converts stored values to classes ``[rows]``, −1 for missing ones."""
        import torch

        if values.is_floating_point():
            values = torch.where(values.isnan(), -1, values)
        return values.long().view(-1)

    def renumbered(self, theirs: Target, values: np.ndarray) -> np.ndarray:
        values = super().renumbered(theirs, values)
        if theirs.names == self.names or not theirs.names:
            return values
        for name in theirs.names:
            if name not in self.names:
                raise ConfigError(unknown(f"class '{name}'", name, self.names))
        places = np.array([self.names.index(name) for name in theirs.names])
        return np.where(values >= 0, places[values], values)

    def initial_bias(self, values: np.ndarray) -> Tensor | None:
        """Returns the logarithms of the weighted class frequencies, with their mean subtracted.

        A class that does not occur counts as half an occurrence.
        """
        import torch

        counts = self._counts(values)
        weights = class_weights(counts) if self.has_class_weights else torch.ones_like(counts)
        frequent = (counts.clamp(min=0.5) * weights.clamp(min=1e-12)).log()
        return frequent - frequent.mean()

    def constant(self, values: np.ndarray) -> Tensor:
        """Returns the prediction of the most frequent class."""
        import torch

        return torch.eye(self.num_outputs)[self._counts(values).argmax()]

    def _counts(self, values: np.ndarray) -> Tensor:
        import torch

        targets = self.as_tensor(torch.from_numpy(np.array(values)))
        return torch.bincount(targets[targets >= 0], minlength=self.num_outputs).double()

    def loss_sums(
        self, predictions: Tensor, targets: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        import torch.nn.functional as F

        known = self.known(targets)
        classes = targets.clamp(min=0)
        losses = F.cross_entropy(predictions, classes, reduction="none")
        return self.class_sums(weigh(losses, weights), classes, known)

    def total_weight(self, weights: Tensor, counts: Tensor) -> Tensor:
        return (weights * counts).sum()  # PyTorch's weighted cross-entropy is a weighted mean

    def metric_pair(self, name: str, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        import torch

        known = self.known(targets)
        if name in OF_RANKS:  # the second of two classes is the label
            labels = torch.where(known, targets, torch.nan)[:, None]
            return predictions.softmax(1)[:, 1:], labels
        return predictions[known].argmax(1), targets[known]

    def in_units(self, predictions: Tensor) -> Tensor:
        return predictions.softmax(1)

    def from_units(self, predictions: Tensor) -> Tensor:
        return predictions.clamp(min=1e-12).log()

    def scores(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the probability of all wrong classes together."""
        targets = targets.reshape(-1)
        right = np.take_along_axis(predictions, targets.clip(0)[:, None], 1)
        return np.where(self.known(targets)[:, None], 1 - right, np.nan)

    def outcomes(
        self, predictions: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        targets = targets.reshape(-1)
        known = self.known(targets)
        happened = np.eye(self.num_outputs, dtype=bool)[targets[known]]
        return predictions[known].reshape(-1), happened.reshape(-1)

    def interval_header(self) -> list[str]:
        return ["classes"]

    @property
    def worded(self) -> tuple[str, ...]:
        return "predicted_class", *self.interval_header()

    def interval_cells(self, row: np.ndarray, bounds: np.ndarray) -> list[str]:
        names = zip(self.column_names, row.tolist(), strict=True)
        return [" or ".join(name for name, p in names if 1 - p <= bounds[0])]

    def truth_cells(self, row: np.ndarray) -> list[str]:
        place = int(np.asarray(row).reshape(-1)[0])
        return [self.column_names[place] if place >= 0 else ""]

    @property
    def truth_names(self) -> list[str]:
        return ["class"]

    def error(self, predictions: Tensor, targets: Tensor) -> float:
        known = self.known(targets)
        chosen = predictions[known].gather(1, targets[known][:, None])
        return float(-chosen.clamp(min=1e-12).log().mean())

    def header(self) -> list[str]:
        return ["predicted_class", *(f"probability_{name}" for name in self.column_names)]

    def cells(self, row: np.ndarray) -> list[str]:
        return [self.column_names[int(np.argmax(row))], *super().cells(row)]

    def wrong(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if not self.of_nodes:
            return super().wrong(predictions, targets)
        return np.flatnonzero((targets >= 0) & (predictions.argmax(1) != targets))

    def overview(self, predictions: np.ndarray) -> dict[str, float]:
        names = self.shown_names
        if self.of_nodes:
            found = Counter(predictions.argmax(1).tolist())
            return {f"nodes that are {n}": found[i] / len(predictions) for i, n in enumerate(names)}
        values = dict(zip(names, predictions[0].tolist(), strict=True))
        return dict(sorted(values.items(), key=lambda item: -item[1]))

    def said(self, row: np.ndarray) -> str:
        best = int(np.argmax(row))
        return f"{self.shown_names[best]} ({show_share(float(row[best]))})"

    def truth(self, row: np.ndarray) -> str:
        return self.shown_names[int(row)] if 0 <= int(row) < self.num_outputs else ""
