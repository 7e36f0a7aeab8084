"""How spectrum-aware attention is computed: one interface, several implementations.

``literal`` follows the paper's equations line by line and is the oracle of all tests. ``torch``
is exact as well: φ₁ through its linear pieces, graphs grouped by size. ``native`` is the same in
compiled code, for float32 on the CPU, and is the default where it is there.
"""

from __future__ import annotations

import torch

from eigenformer.kernels.base import AttentionKernel, AttentionTerms
from eigenformer.kernels.grouped import GroupedAttention
from eigenformer.kernels.literal import LiteralAttention
from eigenformer.kernels.native import NativeAttention, load
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

_KERNELS: dict[str, type[AttentionKernel]] = {
    "literal": LiteralAttention,
    "torch": GroupedAttention,
    "native": NativeAttention,
}


def prepare(graphs: RaggedGraphs, backend: Backend = "auto") -> AttentionKernel:
    """What the layers share: everything about the batch that does not change between them."""
    if backend == "auto":
        return (NativeAttention if _native_fits(graphs) else GroupedAttention)(graphs)
    if backend not in _KERNELS:
        raise ValueError(
            f"attention_backend: '{backend}' is not one of auto, {', '.join(_KERNELS)}"
        )
    return _KERNELS[backend](graphs)


def _native_fits(graphs: RaggedGraphs) -> bool:
    """Whether the native library is there and does this type on this device."""
    spectrum = graphs.eigenvectors
    fits = spectrum.device.type == "cpu" and spectrum.dtype == torch.float32
    return fits and load()[0] is not None


__all__ = [
    "AttentionKernel",
    "AttentionTerms",
    "Backend",
    "GroupedAttention",
    "LiteralAttention",
    "NativeAttention",
    "prepare",
]
