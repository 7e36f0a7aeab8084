"""What a model predicts, as a class: one subclass for each kind of target.

A target knows everything that depends on its kind: the loss, the metrics, the units, the columns
of a file of predictions, and how to put a prediction into words. PyTorch is imported by the
methods that need it, so that a model card can be read without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from eigenformer.config import ConfigError, Settings
from eigenformer.nearest import unknown

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data
    from torchmetrics import Metric

Array = TypeVar("Array", "np.ndarray", "Tensor")
TargetLevel = Literal["graph", "node"]

LOWER_IS_BETTER = ("mae", "rmse")
"""The package's metrics that are errors; for all others, higher is better."""

MOST_SHOWN = 12
"""How many of many names a text shows."""


@dataclass(frozen=True)
class Target(Settings):
    """What is predicted. The base of all kinds; :meth:`from_dict` makes the one that it names.

    A subclass is a frozen dataclass with a ``kind`` of its own. It defines ``metrics``, the loss
    (:meth:`loss_sums`), what the metrics compare (:meth:`metric_pair`), the units
    (:meth:`in_units`) and the words; see ``numbers.py`` for the simplest one. Predictions have
    ``width`` columns, targets ``num_values``.

    Args:
        level: Whether each graph or each node has a target.
        num_outputs: How many targets or classes there are.
        names: The names of the targets or classes.
        judged_by: The metric that selects the best epoch; None for the first of ``metrics``.
        kind: The name of the kind.
    """

    level: TargetLevel = "graph"
    num_outputs: int = 1
    names: tuple[str, ...] = ()
    judged_by: str | None = None
    kind: str = ""

    error_name: ClassVar[str]
    """The name of :meth:`error`."""
    lower_is_better: ClassVar[tuple[str, ...]] = LOWER_IS_BETTER
    """The metrics that are errors."""
    from_words: ClassVar[bool] = False
    """Whether the cells of a table are words, each of which gets a number."""
    one_column: ClassVar[tuple[str, ...]] = ()
    """The kinds that take exactly one column of a table."""
    are_shares: ClassVar[bool] = False
    """Whether predictions are probabilities, which a page draws as bars."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str = "") -> Self:
        if cls is not Target:
            return super().from_dict(values, path)
        from eigenformer.targets import KINDS

        if not isinstance(values, Mapping) or "kind" not in values:
            raise ConfigError(f"{path or 'target'}: expected a target with a 'kind'")
        kind = str(values["kind"])
        if kind not in KINDS:
            raise ConfigError(unknown(f"{path or 'target'}.kind: '{kind}'", kind, KINDS))
        return KINDS[kind].from_dict(values, path)  # type: ignore[return-value]

    @classmethod
    def from_values(
        cls, kind: str, values: np.ndarray, names: Sequence[str], level: TargetLevel
    ) -> Self:
        """The target of these values, ``[rows]`` or ``[rows, columns]``.

        Raises :class:`ConfigError` for values that are not of this kind.
        """
        columns = 1 if values.ndim == 1 else values.shape[1]
        return cls(level=level, num_outputs=columns, names=tuple(names), kind=kind)

    def check(self) -> None:
        if self.num_outputs < 1:
            raise ConfigError(f"num_outputs: must be positive, got {self.num_outputs}")
        if self.judged_by is not None and self.judged_by not in self.metrics:
            what = f"metric: '{self.judged_by}' does not suit {self.level} {self.kind}"
            raise ConfigError(f"{what}; take one of {', '.join(self.metrics)}")

    # --- what it is

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics that suit; the first is the usual one."""
        raise NotImplementedError

    @property
    def metric(self) -> str:
        """The metric that selects the best epoch."""
        return self.judged_by or self.metrics[0]

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value of ``metric`` is better."""
        return self.metric not in self.lower_is_better

    @property
    def width(self) -> int:
        """How many numbers a model gives for each row."""
        return self.num_outputs

    @property
    def num_values(self) -> int:
        """How many values the target of one row has."""
        return self.num_outputs

    @property
    def shown_names(self) -> tuple[str, ...]:
        """The names in a text or on a page."""
        if not self.names and self.num_outputs == 1:
            return ("prediction",)
        return self.column_names

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names in the columns of a file; numbers where there are none."""
        return self.names or tuple(map(str, range(self.num_outputs)))

    def describe(self) -> str:
        """Level, kind and names in words."""
        names = ", ".join(self.names[:6]) + (", …" if len(self.names) > 6 else "")
        return f"{self.level} {self.kind}" + (f" ({names})" if names else "")

    def same_as(self, other: Target) -> bool:
        """Whether a head for one serves the other; units and the choice of a metric may differ."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self.level, self.kind, self.num_outputs, self.names

    @property
    def of_nodes(self) -> bool:
        """Whether each node has a target, and not each graph."""
        return self.level == "node"

    def rows(self, num_nodes: Sequence[int]) -> list[int]:
        """How many rows each graph has, given the number of its nodes."""
        return list(num_nodes) if self.of_nodes else [1] * len(num_nodes)

    # --- from stored values

    @classmethod
    def invalid(cls, value: float) -> str:
        """Why a number in a table cannot be such a target; empty if it can."""
        return ""

    def known(self, values: Array) -> Array:
        """Which of the values are known, as a mask."""
        return values == values  # NaN is not

    def fitted(self, values: np.ndarray) -> Self:
        """The target with the units of the training set, whose values ``[rows, *]`` these are."""
        return self

    def judged(self, metric: str | None) -> Self:
        """The same, judged by another metric; None for the usual one."""
        return replace(self, judged_by=metric)

    def renumbered(self, theirs: Target, values: np.ndarray) -> np.ndarray:
        """Values of another data set, with the numbers that this target has for its classes.

        Raises :class:`ConfigError` if they are not of the same kind, or classes are unknown.
        """
        if (theirs.level, theirs.kind) != (self.level, self.kind):
            raise ConfigError(f"{theirs.describe()}, but the model predicts {self.describe()}")
        return values

    def initial_bias(self, values: np.ndarray) -> Tensor | None:
        """The bias ``[width]`` of a head that suits the training values; None for any."""
        return None

    def constant(self, values: np.ndarray) -> Tensor:
        """The prediction ``[width]`` of someone who has seen only the training values."""
        raise NotImplementedError

    # --- tensors

    def read(self, batch: Data) -> Tensor:
        """The targets of a batch: ``[rows, num_values]``, NaN for a missing one."""
        return self.as_tensor(batch.y)

    def as_tensor(self, values: Tensor) -> Tensor:
        """Stored values in the shape and type that :meth:`read` gives."""
        import torch

        return values.to(torch.get_default_dtype()).view(-1, self.num_values)

    @property
    def loss_size(self) -> int:
        """How many entries :meth:`loss_sums` has."""
        return 1

    def loss_sums(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the losses over the known targets, and how many of them there are.

        Both add up over batches and processes. See :meth:`mean_loss`.

        Args:
            predictions: ``[rows, width]``, as the model gives them, in single precision or better.
            targets: As :meth:`read` gives them.
        """
        raise NotImplementedError

    def mean_loss(self, sums: Tensor, counts: Tensor) -> Tensor:
        """The loss of a batch, from its :meth:`loss_sums`.

        With several processes, each may pass its own ``sums`` and the ``counts`` of all: the
        results add up to the loss.
        """
        return sums.sum() / counts.to(sums.dtype).sum().clamp(min=1)

    def make_metric(self, name: str) -> Metric:
        """A metric of torchmetrics."""
        raise NotImplementedError

    def metric_pair(self, name: str, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """What a metric compares, for what :meth:`loss_sums` takes."""
        raise NotImplementedError

    def in_units(self, predictions: Tensor) -> Tensor:
        """What a model gives → the user's units, or probabilities."""
        raise NotImplementedError

    def error(self, predictions: Tensor, targets: Tensor) -> float:
        """How wrong the prediction for one graph is, in units; NaN where no target is known."""
        raise NotImplementedError

    # --- predictions in units, as arrays, for files and pages

    def header(self) -> list[str]:
        """The columns of a file of predictions."""
        raise NotImplementedError

    def cells(self, row: np.ndarray) -> list[str]:
        """One prediction for these columns. Every digit is kept."""
        return [str(value) for value in row]  # NumPy writes as many as its type has

    def wrong(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The nodes of a graph whose prediction is wrong; none where that means nothing."""
        return np.zeros(0, dtype=np.int64)

    def pairs(
        self, predictions: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> np.ndarray | None:
        """True and predicted values ``[rows, 2]``; None unless one number is predicted."""
        return None

    def overview(self, predictions: np.ndarray) -> dict[str, float]:
        """The prediction for a graph, or a summary of those for its nodes, by name."""
        raise NotImplementedError

    def show(self, value: float) -> str:
        """One predicted value as a text."""
        return show_share(value) if self.are_shares else show_number(value)

    def show_truth(self, value: float) -> str:
        """One true value as a text."""
        return show_number(value)

    def said(self, row: np.ndarray) -> str:
        """One prediction in words."""
        return self._listed([self.show(float(value)) for value in row[: self.num_outputs]])

    def truth(self, row: np.ndarray) -> str:
        """One target in words; empty where nothing is known."""
        values = np.atleast_1d(row)
        if np.isnan(values).all():
            return ""
        shown = ["unknown" if np.isnan(v) else self.show_truth(float(v)) for v in values]
        return self._listed(shown)

    def _listed(self, shown: list[str]) -> str:
        if len(shown) == 1:
            return shown[0]
        pairs = [f"{name} {value}" for name, value in zip(self.shown_names, shown, strict=True)]
        more = "" if len(pairs) <= MOST_SHOWN else ", …"
        return ", ".join(pairs[:MOST_SHOWN]) + more


def show_number(value: float) -> str:
    """A number with four digits and a real minus sign."""
    return f"{value:.4g}".replace("-", "−")


def show_share(value: float) -> str:
    """A probability as a percentage that is never rounded to certainty."""
    shown = 100 * value
    if 0 < shown < 0.1:
        return "<0.1 %"
    if 99.9 < shown < 100:
        return ">99.9 %"
    return f"{shown:.1f} %"
