"""Targets that are numbers, each predicted with its own uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from typing_extensions import Self

from eigenformer.targets.base import Target, weigh
from eigenformer.targets.numbers import NumberTarget

if TYPE_CHECKING:
    from torch import Tensor

# Variances of standardised targets beyond these are not predicted: e⁻¹⁴ is 0.0009².
_LOG_VARIANCES = (-14.0, 14.0)


@dataclass(frozen=True)
class GaussianTarget(NumberTarget):
    r"""Numbers with the mean and the standard deviation of a normal distribution each.

    The model predicts :math:`\mu` and :math:`\log \sigma^2` of standardised targets. The loss is
    the negative logarithm of the density, :math:`\frac12 (\log \sigma^2 + (y - \mu)^2 / \sigma^2)`.
    Intervals are wide where :math:`\sigma` is large: the score of a target is
    :math:`|y - \mu| / \sigma`.
    """

    kind: Literal["gaussian"] = "gaussian"  # type: ignore[assignment]

    losses: ClassVar[tuple[str, ...]] = ()

    @property
    def width(self) -> int:
        return 2 * self.num_outputs

    def learned(self, loss: str | None = None, class_balance: bool = False) -> Self:
        Target.learned(self, loss, class_balance)
        return self

    def loss_sums(
        self, predictions: Tensor, targets: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        targets = self.standardise(targets)
        known = self.known(targets)
        mean, log_variance = predictions.split(self.num_outputs, 1)
        log_variance = log_variance.clamp(*_LOG_VARIANCES)
        errors = (mean - targets.nan_to_num().to(mean.dtype)).where(known, mean.new_zeros(()))
        # F.gaussian_nll_loss would ask a GPU whether a variance is negative.
        losses = (log_variance + errors.square() * (-log_variance).exp()) / 2
        losses = losses.where(known, losses.new_zeros(()))
        return weigh(losses, weights).sum().view(1), known.sum().view(1)

    def in_units(self, predictions: Tensor) -> Tensor:
        """Returns means and standard deviations."""
        import torch

        mean, log_variance = predictions.split(self.num_outputs, 1)
        mean = self.restore(mean)
        deviation = (log_variance.clamp(*_LOG_VARIANCES) / 2).exp().to(mean.dtype)
        return torch.cat([mean, deviation * self._factor(mean)], 1)

    def from_units(self, predictions: Tensor) -> Tensor:
        import torch

        mean, deviation = predictions.split(self.num_outputs, 1)
        log_variance = 2 * (deviation / self._factor(deviation)).log()
        return torch.cat([self.standardise(mean), log_variance], 1)

    def _factor(self, like: Tensor) -> Tensor:
        return self._units(like)[1].abs() if self.scale else like.new_ones(())

    def mixed(self, each: Tensor) -> Tensor:
        """Returns mean and deviation of a mixture: variances, and the variance of the means."""
        import torch

        mean, deviation = each.split(self.num_outputs, -1)
        variance = deviation.square().mean(0) + mean.var(0, correction=0)
        return torch.cat([mean.mean(0), variance.sqrt()], -1)

    def header(self) -> list[str]:
        return [*super().header(), *(f"deviation_{name}" for name in self.column_names)]

    def said(self, row: np.ndarray) -> str:
        means, deviations = np.split(row[: self.width], 2)
        pairs = zip(means.tolist(), deviations.tolist(), strict=True)
        return self._listed([f"{self.show(mean)} ± {self.show(wide)}" for mean, wide in pairs])

    def scores(self, predictions: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns absolute errors in standard deviations."""
        deviation = predictions[:, self.num_outputs : self.width]
        return super().scores(predictions, targets) / deviation

    def interval_cells(self, row: np.ndarray, bounds: np.ndarray) -> list[str]:
        deviation = row[self.num_outputs : self.width].astype(np.float64)
        return super().interval_cells(row, bounds * deviation)
