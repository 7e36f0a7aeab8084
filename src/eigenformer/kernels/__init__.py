"""How spectrum-aware attention is computed: one interface, several implementations.

``literal`` follows the paper's equations line by line and is the oracle of all tests. ``torch``
is exact as well: φ₁ through its linear pieces, graphs grouped by size. ``native`` is the same in
compiled code, for float32 on the CPU, and is the default where it is there.
"""

from __future__ import annotations

from eigenformer.kernels.base import AttentionKernel, AttentionTerms
from eigenformer.kernels.grouped import GroupedAttention
from eigenformer.kernels.literal import LiteralAttention
from eigenformer.kernels.native import NativeAttention, library, load, supports
from eigenformer.nearest import unknown
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

_KERNELS: dict[str, type[AttentionKernel]] = {
    "literal": LiteralAttention,
    "torch": GroupedAttention,
    "native": NativeAttention,
}


def prepare(graphs: RaggedGraphs, backend: Backend = "auto") -> AttentionKernel:
    """What the layers share: everything about the batch that does not change between them.

    Other types than float32 and other devices than the CPU go to ``torch`` instead of ``native``.
    """
    if backend == "auto":
        backend = "torch" if load()[0] is None else "native"
    if backend not in _KERNELS:
        known = ("auto", *_KERNELS)
        raise ValueError(unknown(f"attention_backend: '{backend}'", backend, known))
    if backend == "native":
        library()  # an error that says why, if it is not there
        if not supports(graphs.eigenvectors):
            backend = "torch"
    return _KERNELS[backend](graphs)


__all__ = [
    "AttentionKernel",
    "AttentionTerms",
    "Backend",
    "GroupedAttention",
    "LiteralAttention",
    "NativeAttention",
    "prepare",
]
