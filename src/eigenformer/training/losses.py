"""The former place of the losses, which are now methods of :class:`Target`."""

from __future__ import annotations

from dataclasses import fields, replace

from torch import Tensor

from eigenformer.targets import Target


def loss_sums(target: Target, predictions: Tensor, standardised: Tensor) -> tuple[Tensor, Tensor]:
    """:meth:`Target.loss_sums` of targets that are standardised already."""
    plain = {f.name: () for f in fields(target) if f.name in ("mean", "scale")}
    return replace(target, **plain).loss_sums(predictions, standardised)


def mean_loss(target: Target, sums: Tensor, counts: Tensor) -> Tensor:
    """:meth:`Target.mean_loss`."""
    return target.mean_loss(sums, counts)
