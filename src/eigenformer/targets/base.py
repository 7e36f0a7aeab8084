"""The base class of targets, with one subclass per kind of target.

A target knows everything that depends on its kind: the loss, the metrics, the units, the columns
of a file of predictions, and how to put a prediction into words. Only the methods that need
PyTorch import it, so that a model card can be read without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from typing_extensions import Self

from eigenformer.config import ConfigError, Settings
from eigenformer.nearest import unknown

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data
    from torchmetrics import Metric

Array = TypeVar("Array", "np.ndarray", "Tensor")
TargetLevel = Literal["graph", "node"]

LOWER_IS_BETTER = ("mae", "rmse")
"""The package's metrics that are errors. For all others, higher is better."""

MOST_SHOWN = 12
"""The maximum number of names in a text."""


@dataclass(frozen=True)
class Target(Settings):
    """What is predicted. The base class of all kinds; :meth:`from_dict` selects the subclass.

    A subclass is a frozen dataclass with its own ``kind``. It defines ``metrics``, the loss
    (:meth:`loss_sums`), what the metrics compare (:meth:`metric_pair`), the units
    (:meth:`in_units`) and the words; see ``numbers.py`` for the simplest example. Predictions have
    ``width`` columns, targets ``num_values``.

    Args:
        level: Whether each graph or each node has a target.
        num_outputs: The number of targets or classes.
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
    """The name of the quantity that :meth:`error` returns."""
    lower_is_better: ClassVar[tuple[str, ...]] = LOWER_IS_BETTER
    """The metrics that are errors."""
    from_words: ClassVar[bool] = False
    """Whether the cells of a table are words, which are numbered."""
    one_column: ClassVar[tuple[str, ...]] = ()
    """The kinds that take exactly one column of a table."""
    losses: ClassVar[tuple[str, ...]] = ()
    """The losses to choose from. The first is the default; empty if there is no choice."""
    are_shares: ClassVar[bool] = False
    """Whether predictions are probabilities. Pages draw them as bars."""

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
        """Returns the target of these values, ``[rows]`` or ``[rows, columns]``.

        Raises :class:`ConfigError` if the values are not of this kind.
        """
        columns = 1 if values.ndim == 1 else values.shape[1]
        return cls(level=level, num_outputs=columns, names=tuple(names), kind=kind)

    def check(self) -> None:
        if self.num_outputs < 1:
            raise ConfigError(f"num_outputs: must be positive, got {self.num_outputs}")
        if len(self.names) not in (0, self.num_outputs):
            raise ConfigError(f"names: {len(self.names)} for {self.num_outputs} outputs")
        if self.judged_by is not None and self.judged_by not in self.metrics:
            what = f"metric: '{self.judged_by}' cannot be used for {self.level} {self.kind}"
            raise ConfigError(f"{what}; use one of {', '.join(self.metrics)}")

    # --- properties

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics of this target. The first is the default."""
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
        """The number of model outputs per row."""
        return self.num_outputs

    @property
    def num_values(self) -> int:
        """The number of target values per row."""
        return self.num_outputs

    @property
    def shown_names(self) -> tuple[str, ...]:
        """The names shown in texts and on pages."""
        if not self.names and self.num_outputs == 1:
            return ("prediction",)
        return self.column_names

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names used in the columns of a file; numbers if the target has no names."""
        return self.names or tuple(map(str, range(self.num_outputs)))

    def describe(self) -> str:
        """Returns level, kind and names in words."""
        names = ", ".join(self.names[:6]) + (", …" if len(self.names) > 6 else "")
        return f"{self.level} {self.kind}" + (f" ({names})" if names else "")

    def same_as(self, other: Target) -> bool:
        """Whether both targets can share a head. Units and the chosen metric may differ."""
        return self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self.level, self.kind, self.num_outputs, self.names

    @property
    def of_nodes(self) -> bool:
        """Whether nodes have targets, not graphs."""
        return self.level == "node"

    def rows(self, num_nodes: Sequence[int]) -> list[int]:
        """Returns the number of rows per graph, given its number of nodes."""
        return list(num_nodes) if self.of_nodes else [1] * len(num_nodes)

    # --- from stored values

    @classmethod
    def invalid(cls, value: float) -> str:
        """Returns why a number in a table is not a valid target; empty if it is valid."""
        return ""

    def known(self, values: Array) -> Array:
        """Returns a mask of the known values."""
        return values == values  # false for NaN

    def fitted(self, values: np.ndarray) -> Self:
        """Returns the target with units computed from the training values ``[rows, *]``."""
        return self

    def doubt(self, values: np.ndarray) -> str:
        """Returns why nothing can be learned from the values ``[rows, *]``; empty if it can."""
        return ""

    def judged(self, metric: str | None) -> Self:
        """Returns the same target with another metric; None for the default."""
        return replace(self, judged_by=metric)

    def learned(self, loss: str | None = None, class_balance: bool = False) -> Self:
        """Returns the same target with this loss.

        Args:
            loss: One of ``losses``; None for the default.
            class_balance: Whether rare classes have larger weights.
        """
        if loss is not None and loss not in self.losses:
            why = f"use one of {', '.join(self.losses)}" if self.losses else "there is no choice"
            raise ConfigError(f"loss: '{loss}' cannot be used for {self.kind}; {why}")
        if class_balance:
            raise ConfigError(f"class_balance: {self.kind} has no classes")
        return self

    def renumbered(self, theirs: Target, values: np.ndarray) -> np.ndarray:
        """Returns the values of another dataset with this target's class numbers.

        Raises :class:`ConfigError` if level or kind differ, or if a class is unknown.
        """
        if (theirs.level, theirs.kind) != (self.level, self.kind):
            raise ConfigError(
                f"the task is {theirs.describe()}, but the model predicts {self.describe()}"
            )
        return values

    def initial_bias(self, values: np.ndarray) -> Tensor | None:
        """Returns a bias ``[width]`` for the head that fits the training values; None for any."""
        return None

    def constant(self, values: np.ndarray) -> Tensor:
        """Returns the constant prediction ``[width]`` that fits the training values."""
        raise NotImplementedError

    # --- tensors

    def read(self, batch: Data) -> Tensor:
        """Returns the targets of a batch, ``[rows, num_values]``, NaN for missing ones."""
        return self.as_tensor(batch.y)

    def as_tensor(self, values: Tensor) -> Tensor:
        """Converts stored values to the shape and type that :meth:`read` returns."""
        import torch

        return values.to(torch.get_default_dtype()).view(-1, self.num_values)

    @property
    def loss_size(self) -> int:
        """The number of entries in each tensor of :meth:`loss_sums`."""
        return 1

    def loss_sums(
        self, predictions: Tensor, targets: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the sum of the losses over the known targets, and the number of known targets.

        Both can be added over batches and processes. See :meth:`mean_loss`.

        Args:
            predictions: The model's outputs ``[rows, width]``, in single precision or better.
            targets: The targets as returned by :meth:`read`.
            weights: The weight of each row's loss, ``[rows]``, with a mean of about 1; None for 1.
        """
        raise NotImplementedError

    def row_weights(self, batch: Data) -> Tensor | None:
        """Returns the weights of the rows of a batch, ``[rows]``; None if all rows weigh the same.

        The attribute ``row_weight`` has one weight per graph.
        """
        weights = getattr(batch, "row_weight", None)
        return weights[batch.batch] if weights is not None and self.of_nodes else weights

    def mean_loss(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Returns the loss of a batch, given its :meth:`loss_sums`.

        With several processes, each process may pass its own ``sums`` and the ``counts`` of all
        processes. The results then add up to the loss.
        """
        return sums.sum() / counts.to(sums.dtype).sum().clamp(min=1)

    def make_metric(self, name: str) -> Metric:
        """Returns a torchmetrics metric."""
        raise NotImplementedError

    def metric_pair(self, name: str, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Converts the arguments of :meth:`loss_sums` to the arguments of a metric."""
        raise NotImplementedError

    def in_units(self, predictions: Tensor) -> Tensor:
        """Converts model outputs to the user's units, or to probabilities."""
        raise NotImplementedError

    def from_units(self, predictions: Tensor) -> Tensor:
        """Converts predictions in units back to model outputs: the inverse of :meth:`in_units`."""
        raise NotImplementedError

    def mixed(self, each: Tensor) -> Tensor:
        """Returns the common prediction of several models in units, ``[models, rows, *]``."""
        return each.mean(0)

    def error(self, predictions: Tensor, targets: Tensor) -> float:
        """Returns the error of the prediction for one graph, in units.

        NaN if no target is known.
        """
        raise NotImplementedError

    # --- predictions in units, as arrays: for files and pages

    def header(self) -> list[str]:
        """Returns the column names of a file of predictions."""
        raise NotImplementedError

    def cells(self, row: np.ndarray) -> list[str]:
        """Returns the cells of one prediction for these columns, with all digits."""
        return [str(value) for value in row]  # NumPy writes all digits of the type

    def truth_cells(self, row: np.ndarray) -> list[str]:
        """Returns the cells of one target, for the columns :attr:`truth_names`; "" if missing."""
        return [
            str(value) if known else ""
            for value, known in zip(np.atleast_1d(row), np.atleast_1d(self.known(row)), strict=True)
        ]

    @property
    def truth_names(self) -> list[str]:
        """The names of the columns of :meth:`truth_cells`."""
        return list(self.column_names)

    # --- intervals

    def scores(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns how far each target is from its prediction, ``[rows, num_values]``.

        NaN for missing targets. See :class:`Calibration`.

        Args:
            predictions: Predictions in units, ``[rows, *]``.
            targets: The targets as returned by :meth:`read`.
        """
        raise NotImplementedError

    def interval_header(self) -> list[str]:
        """Returns the column names of :meth:`interval_cells`."""
        raise NotImplementedError

    @property
    def worded(self) -> tuple[str, ...]:
        """Those columns of :meth:`header` and :meth:`interval_header` that hold words."""
        return ()

    def interval_cells(self, row: np.ndarray, bounds: np.ndarray) -> list[str]:
        """Returns the values whose score is at most the bound, for one prediction in units."""
        raise NotImplementedError

    def covered(
        self, predictions: np.ndarray, targets: np.ndarray, bounds: np.ndarray
    ) -> np.ndarray:
        """Returns the share of the known targets whose score is at most its bound, per target."""
        scores = self.scores(predictions, targets)
        known = np.isfinite(scores)
        return ((scores <= bounds) & known).sum(0) / np.maximum(known.sum(0), 1)

    def outcomes(
        self, predictions: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns all predicted probabilities and whether each came true; None without any."""
        return None

    def single(self, column: int) -> Self | None:
        """Returns one of several targets as a target; None if it cannot stand alone."""
        return None

    def wrong(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the nodes with a wrong prediction; empty if "wrong" is not defined."""
        return np.zeros(0, dtype=np.int64)

    def pairs(
        self, predictions: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> np.ndarray | None:
        """Returns true and predicted values ``[rows, 2]``; None unless graphs have one number."""
        return None

    def overview(self, predictions: np.ndarray) -> dict[str, float]:
        """Returns the prediction for a graph, or a summary of its nodes' predictions, by name."""
        raise NotImplementedError

    def show(self, value: float) -> str:
        """Returns one predicted value as text."""
        return show_share(value) if self.are_shares else show_number(value)

    def show_truth(self, value: float) -> str:
        """Returns one true value as text."""
        return show_number(value)

    def said(self, row: np.ndarray) -> str:
        """Returns one prediction in words."""
        return self._listed([self.show(float(value)) for value in row[: self.num_outputs]])

    def truth(self, row: np.ndarray) -> str:
        """Returns one target in words; empty if no value is known."""
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


def weigh(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Returns the losses ``[rows]`` or ``[rows, *]``, multiplied by the weights of their rows."""
    if weights is None:
        return losses
    return losses * weights.to(losses.dtype).view(-1, *[1] * (losses.dim() - 1))


def show_number(value: float) -> str:
    """Formats a number with four digits and a real minus sign."""
    return f"{value:.4g}".replace("-", "−")


def show_share(value: float) -> str:
    """Formats a probability as a percentage, never rounded to 0 % or 100 %."""
    shown = 100 * value
    if 0 < shown < 0.1:
        return "<0.1 %"
    if 99.9 < shown < 100:
        return ">99.9 %"
    return f"{shown:.1f} %"
