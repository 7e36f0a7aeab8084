"""The common base of classes and labels: class weights, and metrics of decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from typing_extensions import Self

from eigenformer.targets.base import Array, Target

if TYPE_CHECKING:
    from torch import Tensor
    from torchmetrics import Metric

OF_RANKS = ("auroc", "average_precision")
"""The metrics that compare probabilities; all others compare decisions."""


@dataclass(frozen=True)
class CategoryTarget(Target):
    """The base class of classes and labels. Predictions are logits; in units, probabilities.

    Args:
        balanced: Whether classes of graphs have weights, as those of nodes have.
    """

    balanced: bool = False

    error_name: ClassVar[str] = "cross-entropy"
    are_shares: ClassVar[bool] = True

    @property
    def num_classes(self) -> int:
        """The number of classes. A label has two: yes and no."""
        raise NotImplementedError

    @property
    def has_class_weights(self) -> bool:
        """Whether rare classes have larger weights: always true for node targets."""
        return self.of_nodes or self.balanced

    def learned(self, loss: str | None = None, class_balance: bool = False) -> Self:
        super().learned(loss)
        return replace(self, balanced=class_balance)

    def known(self, values: Array) -> Array:
        return values >= 0  # false for NaN

    def doubt(self, values: np.ndarray) -> str:
        rows = values.reshape(len(values), -1)
        for column, name in zip(rows.T, self.shown_names, strict=False):
            if len(np.unique(column[self.known(column)])) == 1:
                of = f" of '{name}'" if rows.shape[1] > 1 else ""
                return f"all values{of} are of one class"
        return ""

    @property
    def loss_size(self) -> int:
        return self.num_classes if self.has_class_weights else 1

    def class_sums(self, losses: Tensor, classes: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """Sums the known losses for :meth:`loss_sums`: one sum, or one sum per class.

        Masks the unknown ones, because a GPU would have to tell the CPU how many a selection has.
        """
        losses = losses.where(known, losses.new_zeros(())).flatten()
        counted = known.long().flatten()
        if not self.has_class_weights:
            return losses.sum().view(1), counted.sum().view(1)
        sums, counts = (x.new_zeros(self.num_classes) for x in (losses, counted))
        classes = classes.flatten()
        return sums.index_add(0, classes, losses), counts.index_add(0, classes, counted)

    def mean_loss(self, sums: Tensor, counts: Tensor) -> Tensor:
        r"""Returns the loss of a batch.

        With class weights, class c has the weight :math:`(V - n_c) / V` among V values.
        """
        if not self.has_class_weights:
            return super().mean_loss(sums, counts)
        weights, counts = class_weights(counts).to(sums.dtype), counts.to(sums.dtype)
        return (weights * sums).sum() / self.total_weight(weights, counts).clamp(min=1e-12)

    def total_weight(self, weights: Tensor, counts: Tensor) -> Tensor:
        """Returns the divisor of the weighted sum of the losses."""
        raise NotImplementedError

    def make_metric(self, name: str) -> Metric:
        from eigenformer.targets.metrics import class_metric, rank_metric

        if name in OF_RANKS:
            return rank_metric(name, self.num_values)
        return class_metric(name, max(2, self.num_classes))


def class_weights(counts: Tensor) -> Tensor:
    """Returns the weights (V − n_c) / V of each class c with n_c of V nodes."""
    from eigenformer.transfer import widened

    size = widened(counts.sum().clamp(min=1))
    return (size - counts) / size
