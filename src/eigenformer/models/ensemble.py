"""Several trained models that predict together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.models.base import Model
from eigenformer.targets import Target


class Ensemble(Model):
    r"""Predicts the mean of the predictions of its members.

    The mean is taken in the units of the target: of numbers, or of probabilities. How much the
    members differ shows how far to trust the mean, as in `"Simple and Scalable Predictive
    Uncertainty Estimation using Deep Ensembles" <https://arxiv.org/abs/1612.01474>`_.

    Args:
        members: The models. All have the same inputs.
        targets: The target of each member. They may differ in their standardisation only.
    """

    def __init__(self, members: Sequence[Model], targets: Sequence[Target]) -> None:
        if not members or len(members) != len(targets):
            raise ValueError(f"{len(members)} members with {len(targets)} targets")
        super().__init__(members[0].config)
        self.members = nn.ModuleList(members)
        self.targets = tuple(targets)
        self.backend = members[0].backend

    @property
    def first(self) -> Model:
        """The first member, for everything that looks into a model."""
        member = self.members[0]
        assert isinstance(member, Model)
        return member

    def forward(self, batch: Data) -> Tensor:
        """Predicts for every graph or node, as a model of the first target."""
        return self.combined(self.each(batch))

    def each(self, batch: Data) -> Tensor:
        """Returns the predictions of each member in units, ``[members, rows, *]``."""
        pairs = zip(self.members, self.targets, strict=True)
        return torch.stack([target.in_units(member(batch)) for member, target in pairs])

    def combined(self, each: Tensor) -> Tensor:
        """Returns the mean of the members' predictions, as an output of the first target."""
        return self.targets[0].from_units(self.targets[0].mixed(each))

    def check(self, batch: Data) -> Data:
        """Checks a batch once for all members."""
        return self.first.check(batch)
