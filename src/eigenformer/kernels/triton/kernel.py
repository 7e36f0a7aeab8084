"""The kernel that computes attention with Triton."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from eigenformer.kernels.base import (
    AttentionTerms,
    PhiTable,
    Request,
    ScalarFunction,
    phi_table,
)
from eigenformer.kernels.fused import FusedAttention, few_factors
from eigenformer.kernels.triton.layout import MOST_CHANNELS, count_parts, make_layout
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs


class TritonAttention(FusedAttention):
    """Attention in Triton on a GPU; values may be bf16.

    With ``TRITON_INTERPRET=1``, set before Triton is imported, it runs on the CPU, slowly and for
    tests only.
    """

    name: ClassVar[Backend] = "triton"

    @torch.compiler.disable
    def __init__(self, graphs: RaggedGraphs) -> None:
        super().__init__(graphs)
        given = graphs.eigenvectors
        reason = self.unavailable() or self.unsupported(Request(given.dtype, given.device))
        if reason is not None:
            raise TypeError(f"Triton attention: {reason}")
        from eigenformer.kernels.triton.launch import longest_row

        self.layout, self.edge_order = make_layout(graphs)
        self.eigenvectors = given.contiguous()
        self.longest = longest_row(self.layout, self.eigenvectors)
        self.largest, self.parts = max(graphs.sizes), count_parts(graphs)

    @classmethod
    def unavailable(cls) -> str | None:
        if importlib.util.find_spec("triton") is None:
            return "Triton is not installed; it comes with PyTorch for CUDA and ROCm on Linux"
        return None

    @classmethod
    def details(cls) -> str:
        import triton  # ROCm's wheels have another name, so there is no metadata to ask

        return f"Triton {triton.__version__}"

    @classmethod
    def unsupported(cls, request: Request) -> str | None:
        if request.device.type != ("cpu" if _interpreted() else "cuda"):
            return f"it runs on NVIDIA's and AMD's GPUs only, not on '{request.device}'"
        if request.channels > MOST_CHANNELS:
            return f"its heads have at most {MOST_CHANNELS} channels, not {request.channels}"
        return super().unsupported(request)

    @classmethod
    def doubts(cls, request: Request) -> str | None:
        from eigenformer.kernels.triton.comparison import disagreement

        device = request.device
        if device.type == "cuda":  # anything else is the interpreter
            if not torch.cuda.is_available():
                return "there is no GPU to compare it with 'literal' on"
            if device.index is None:
                device = torch.device("cuda", torch.cuda.current_device())
        return disagreement(device)

    def attend_seeded(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> Tensor:
        """Computes the attention of one layer, with dropout from ``seed``.

        The same seed drops the same weights as in the native kernel.
        """
        from eigenformer.kernels.triton import ops

        return ops.attention(*self.inputs(terms, dropout, seed))[0]

    def inputs(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> tuple[object, ...]:
        """Returns the inputs of the operator."""
        from eigenformer.kernels.triton.launch import Inputs

        table = terms.table or self.tables([(terms.phi1, terms.phi2)])[0]
        a = terms.edges.coefficients
        edges = terms.edges if a is None or few_factors(a) else terms.edges.by_edge()
        given = self.layer_inputs(terms, edges, table)
        given["edge_kind"] = given["edge_kind"].int()
        return Inputs(
            *self.layout,
            **given,
            seed=seed,
            dropout=dropout,
            largest=self.largest,
            parts=self.parts,
        )

    def tables(self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]) -> list[PhiTable]:
        return [phi_table(self, self.longest, *pair) for pair in phis]


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"
