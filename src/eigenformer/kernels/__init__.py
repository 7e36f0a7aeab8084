"""How spectrum-aware attention is computed: one interface, several implementations.

``literal`` follows the paper's equations line by line and is the oracle of all tests. ``torch``
is exact as well, and is the default: φ₁ through its linear pieces, graphs grouped by size.
"""

from __future__ import annotations

from eigenformer.kernels.base import AttentionKernel, AttentionTerms
from eigenformer.kernels.grouped import GroupedAttention
from eigenformer.kernels.literal import LiteralAttention
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

_KERNELS: dict[str, type[AttentionKernel]] = {
    "auto": GroupedAttention,
    "torch": GroupedAttention,
    "literal": LiteralAttention,
}


def prepare(graphs: RaggedGraphs, backend: Backend = "auto") -> AttentionKernel:
    """What the layers share: everything about the batch that does not change between them."""
    if backend not in _KERNELS:
        raise ValueError(f"attention_backend: '{backend}' is not one of {', '.join(_KERNELS)}")
    return _KERNELS[backend](graphs)


__all__ = [
    "AttentionKernel",
    "AttentionTerms",
    "Backend",
    "GroupedAttention",
    "LiteralAttention",
    "prepare",
]
