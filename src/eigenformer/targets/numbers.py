"""Targets that are numbers, with a loss in units of the training targets' deviation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, cast, get_args

import numpy as np
from typing_extensions import Self

from eigenformer.config import ConfigError
from eigenformer.options import Loss
from eigenformer.targets.base import Target, weigh

if TYPE_CHECKING:
    from torch import Tensor
    from torchmetrics import Metric


# From this ratio of mean and deviation on, the rounding of float32 is seen in the errors.
_LARGE = 1e3
_SMALLEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class NumberTarget(Target):
    """Numbers, which the model learns standardised.

    A subclass may have more outputs (``width``) than targets. The first ``num_outputs`` columns of
    a prediction must then be the numbers themselves.

    Args:
        mean: Added to each prediction after scaling; empty for 0.
        scale: The factor of each prediction; empty for 1.
        loss: The loss.
    """

    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    loss: Loss = "l1"
    kind: Literal["regression"] = "regression"

    error_name: ClassVar[str] = "mean absolute error"
    losses: ClassVar[tuple[str, ...]] = get_args(Loss)

    def check(self) -> None:
        super().check()
        for name in ("mean", "scale"):
            values = getattr(self, name)
            if len(values) not in (0, self.num_outputs) or not np.isfinite(values).all():
                raise ConfigError(f"{name}: expected {self.num_outputs} finite numbers or none")
        if len(self.mean) != len(self.scale) or not all(self.scale):
            raise ConfigError("mean and scale must have the same length, and no scale may be 0")

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("mae", "rmse", "r2")

    def as_tensor(self, values: Tensor) -> Tensor:
        """Converts stored values to ``[rows, num_values]``; those in float64 keep their digits."""
        import torch

        exact = values.dtype == torch.float64
        return values.view(-1, self.num_values) if exact else super().as_tensor(values)

    @property
    def _is_fine(self) -> bool:
        """Whether the deviation of a target is so small that float32 rounds it away."""
        pairs = zip(self.mean, self.scale, strict=True)
        return any(abs(mean) > _LARGE * abs(scale) for mean, scale in pairs)

    def standardise(self, targets: Tensor) -> Tensor:
        """Converts targets from the user's units to the standardised values of the model."""
        if not self.mean:
            return targets
        mean, scale = self._units(targets)
        return (targets - mean) / scale

    def restore(self, predictions: Tensor) -> Tensor:
        """Converts the model's standardised predictions to the user's units.

        The result is in float64 if float32 is too coarse for these units.
        """
        from eigenformer.transfer import widened

        if not self.mean:
            return predictions
        if self._is_fine:
            predictions = widened(predictions)
        mean, scale = self._units(predictions)
        return predictions * scale + mean

    def _units(self, like: Tensor) -> tuple[Tensor, Tensor]:
        from eigenformer.transfer import on_device

        return (
            on_device(self.mean, like.device, like.dtype),
            on_device(self.scale, like.device, like.dtype),
        )

    def fitted(self, values: np.ndarray) -> Self:
        if not len(values):
            return self
        values = values.reshape(len(values), -1).astype(np.float64)
        if (~np.isnan(values)).sum(0).min() == 0:
            raise ConfigError("a target has no value in the training set")
        mean, scale = np.nanmean(values, 0), np.nanstd(values, 0)
        # A constant target is not scaled. Its deviation need not be exactly 0.
        constant = np.nanmin(values, 0) == np.nanmax(values, 0)
        scale = np.where(constant | (scale == 0), 1.0, scale)
        return replace(self, mean=tuple(mean.tolist()), scale=tuple(scale.tolist()))

    def doubt(self, values: np.ndarray) -> str:
        rows = values.reshape(len(values), -1)
        for column, name in zip(rows.T, self.shown_names, strict=False):
            there = column[self.known(column)].astype(np.float64)
            if len(np.unique(there)) == 1:
                return f"all values of '{name}' are equal"
            if len(there) and there.std() < _SMALLEST:
                return (
                    f"the values of '{name}' differ by less than 1.2e-38, which single precision "
                    f"cannot tell apart; multiply them by a constant"
                )
        return ""

    def learned(self, loss: str | None = None, class_balance: bool = False) -> Self:
        super().learned(loss, class_balance)
        return replace(self, loss=cast(Loss, loss or self.losses[0]))

    def initial_bias(self, values: np.ndarray) -> Tensor | None:
        """Returns the mean of the standardised targets; 0 for all further outputs."""
        return self.constant(values)

    def constant(self, values: np.ndarray) -> Tensor:
        import torch

        known = self.standardise(self.as_tensor(torch.from_numpy(np.array(values))))
        constant = torch.zeros(self.width, dtype=torch.float64)
        constant[: self.num_outputs] = known.double().nanmean(0)
        return constant

    def loss_sums(
        self, predictions: Tensor, targets: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        targets = self.standardise(targets)
        known = self.known(targets)
        # A mask, not a selection, whose size a GPU would have to tell the CPU.
        errors = predictions - targets.nan_to_num().to(predictions.dtype)
        losses = self._losses(errors).where(known, errors.new_zeros(()))
        return weigh(losses, weights).sum().view(1), known.sum().view(1)

    def _losses(self, errors: Tensor) -> Tensor:
        if self.loss == "l1":
            return errors.abs()
        if self.loss == "l2":
            return errors.square()
        import torch.nn.functional as F

        return F.huber_loss(errors, errors.new_zeros(()).expand_as(errors), reduction="none")

    def make_metric(self, name: str) -> Metric:
        from eigenformer.targets.metrics import number_metric

        return number_metric(name, self.num_outputs)

    def metric_pair(self, name: str, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if name == "r2" and self._is_fine:  # does not depend on the units
            predictions = predictions[:, : self.num_outputs]
            return predictions, self.standardise(targets).to(predictions.dtype)
        predictions = self.in_units(predictions)[:, : self.num_outputs]
        if name == "r2":
            return predictions, targets.to(predictions.dtype)
        known = self.known(targets)
        return predictions[known], targets[known].to(predictions.dtype)

    def in_units(self, predictions: Tensor) -> Tensor:
        return self.restore(predictions)

    def from_units(self, predictions: Tensor) -> Tensor:
        if self.width != self.num_outputs:
            raise NotImplementedError(
                f"targets of kind '{self.kind}' have outputs beside the numbers, so their class "
                f"needs a from_units, the inverse of its in_units"
            )
        return self.standardise(predictions)

    def scores(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns absolute errors."""
        return np.abs(predictions[:, : self.num_outputs] - targets)

    def single(self, column: int) -> Self | None:
        if self.num_outputs == 1 or self.width != self.num_outputs:
            return None
        units = {name: getattr(self, name)[column : column + 1] for name in ("mean", "scale")}
        return replace(self, num_outputs=1, names=(self.column_names[column],), **units)

    def interval_header(self) -> list[str]:
        return [f"{end}_{name}" for name in self.column_names for end in ("low", "high")]

    def interval_cells(self, row: np.ndarray, bounds: np.ndarray) -> list[str]:
        middle = row[: self.num_outputs].astype(np.float64)
        ends = np.stack([middle - bounds, middle + bounds], 1)
        return [str(value) for value in ends.reshape(-1).tolist()]

    def error(self, predictions: Tensor, targets: Tensor) -> float:
        known = self.known(targets)
        predictions = predictions[:, : self.num_outputs]
        return float((predictions[known] - targets[known]).abs().mean())

    def header(self) -> list[str]:
        return [f"predicted_{name}" for name in self.column_names]

    def pairs(
        self, predictions: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> np.ndarray | None:
        if self.of_nodes or self.num_outputs != 1:
            return None
        return np.stack([np.concatenate(targets)[:, 0], np.concatenate(predictions)[:, 0]], 1)

    def overview(self, predictions: np.ndarray) -> dict[str, float]:
        names, values = self.shown_names, predictions[0]
        if self.of_nodes:
            names, values = tuple(f"mean {name}" for name in names), predictions.mean(0)
        return dict(zip(names, values[: self.num_outputs].tolist(), strict=True))
