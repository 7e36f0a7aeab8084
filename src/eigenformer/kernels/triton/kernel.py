"""The kernel that computes attention with Triton."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from eigenformer.kernels.base import (
    AttentionKernel,
    AttentionTerms,
    EdgeTerms,
    PhiTable,
    Request,
    ScalarFunction,
    phi_table,
    signed_sqrt,
)
from eigenformer.kernels.torch import TorchAttention
from eigenformer.kernels.triton.layout import MOST_CHANNELS, count_parts, make_layout
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

# For a row, a factor costs about as much as a channel of an edge.
_FEW_FACTORS = 8


class TritonAttention(AttentionKernel):
    """Attention in Triton on a GPU, in float32. Memory is O(Σn·d) for any graphs.

    Calls that it does not support, see :meth:`unsupported`, are passed to
    :class:`TorchAttention`. With ``TRITON_INTERPRET=1``, set before Triton is imported, it runs on
    the CPU, slowly and for tests only.
    """

    name: ClassVar[Backend] = "triton"

    @torch.compiler.disable
    def __init__(self, graphs: RaggedGraphs) -> None:
        super().__init__(graphs)
        given = graphs.eigenvectors
        reason = self.unavailable() or self.unsupported(Request(given.dtype, given.device.type))
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
        from importlib.metadata import version

        return f"Triton {version('triton')}"

    @classmethod
    def unsupported(cls, request: Request) -> str | None:
        if request.dtype != torch.float32:
            return f"it computes in float32 only, not in {str(request.dtype).split('.')[-1]}"
        if request.device != ("cpu" if _interpreted() else "cuda"):
            return f"it runs on NVIDIA's and AMD's GPUs only, not on '{request.device}'"
        if request.psi not in (None, signed_sqrt):
            return "it knows ψ as the identity and as the signed square root only"
        if request.keep:
            return "it draws the factors of dropout itself and takes none"
        if request.return_attention:
            return "it never stores the attention weights and so cannot return them"
        if request.channels > MOST_CHANNELS:
            return f"its heads have at most {MOST_CHANNELS} channels, not {request.channels}"
        return None

    @classmethod
    def doubts(cls, request: Request) -> str | None:
        from eigenformer.kernels.triton.comparison import disagreement

        if request.device != "cuda":  # in the interpreter
            return disagreement(torch.device(request.device))
        if not torch.cuda.is_available():
            return "there is no GPU to compare it with 'literal' on"
        return disagreement(torch.device("cuda", torch.cuda.current_device()))

    @cached_property
    def fallback(self) -> TorchAttention:
        """Kernel of the same batch, for calls that this one does not support."""
        return TorchAttention(self.graphs)

    def attend(
        self,
        terms: AttentionTerms,
        dropout: float = 0.0,
        keep: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None]:
        request = Request(
            self.eigenvectors.dtype,
            terms.values.device.type,
            terms.psi,
            keep is not None,
            return_attention,
            channels=terms.channels,
        )
        if self.unsupported(request) is not None:
            return self.fallback.attend(terms, dropout, keep, return_attention)
        # The seed comes from PyTorch's generator of the device, and stays there.
        device = terms.values.device
        seed = torch.randint(2**62, (), device=device) if dropout else _zero(device)
        return self.attend_seeded(terms, dropout, seed), None

    def attend_seeded(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> Tensor:
        """Computes the attention of one layer, with dropout from ``seed``.

        The same seed drops the same weights as in the native kernel.
        """
        from eigenformer.kernels.triton import ops

        return ops.attention(*self.inputs(terms, dropout, seed))[0]

    def inputs(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> tuple[object, ...]:
        """Returns the inputs of the operator."""
        from eigenformer.kernels.triton.launch import Inputs
        from eigenformer.kernels.triton.tiles import IDENTITY, NO_FEATURES, SIGNED_SQRT

        table = terms.table or self.tables([(terms.phi1, terms.phi2)])[0]
        edges = terms.edges if _shared(terms.edges) else terms.edges.by_edge()
        kind = self.edge_order if edges.kinds is None else edges.kinds[self.edge_order]
        psi = IDENTITY if terms.psi is None else SIGNED_SQRT
        return Inputs(
            *self.layout,
            edge_kind=kind.int(),
            edge_coefficients=_contiguous(edges.coefficients),
            eigenvectors=self.eigenvectors,
            importance=table.importance.contiguous(),
            knots=table.phi1.knots.contiguous(),
            slopes=table.phi1.slopes.contiguous(),
            intercepts=table.phi1.intercepts.contiguous(),
            values=terms.values.contiguous(),
            queries=_contiguous(terms.queries),
            keys=_contiguous(terms.keys),
            edge_logits=_contiguous(edges.logits),
            edge_values=_contiguous(edges.values),
            seed=seed,
            dropout=dropout,
            psi=NO_FEATURES if terms.queries is None else psi,
            largest=self.largest,
            parts=self.parts,
        )

    def tables(self, phis: Sequence[tuple[ScalarFunction, ScalarFunction]]) -> list[PhiTable]:
        return [phi_table(self, self.longest, *pair) for pair in phis]


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _shared(edges: EdgeTerms) -> bool:
    """Returns whether the kernels can use shared rows as they are."""
    a = edges.coefficients
    # There are no gradients for coefficients, which are usually data.
    return a is None or (a.size(1) <= _FEW_FACTORS and not a.requires_grad)


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _zero(device: torch.device) -> Tensor:
    return torch.zeros((), dtype=torch.long, device=device)
