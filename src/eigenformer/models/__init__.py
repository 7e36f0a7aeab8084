"""The networks: each takes a batch of graphs and gives predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenformer.lazy import lazy_names

if TYPE_CHECKING:
    from eigenformer.models.eigenformer import Eigenformer

__all__ = ["Eigenformer"]

__getattr__, __dir__ = lazy_names(__name__, {"Eigenformer": "eigenformer.models.eigenformer"})
