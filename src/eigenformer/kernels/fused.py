"""What the kernels have in common that compute attention in one operator each way."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from eigenformer.kernels.base import (
    AttentionKernel,
    AttentionTerms,
    EdgeTerms,
    PhiTable,
    Request,
    signed_sqrt,
)
from eigenformer.kernels.operators import IDENTITY, NO_FEATURES, SIGNED_SQRT
from eigenformer.kernels.torch import TorchAttention

# For a row, a factor costs about as much as a channel of an edge.
_FEW_FACTORS = 8


class FusedAttention(AttentionKernel):
    """Attention in float32 that stores nothing for pairs of nodes: it keeps O(Σn·d) numbers.

    Calls that it does not support, see :meth:`unsupported`, are passed to
    :class:`TorchAttention`.
    """

    eigenvectors: Tensor
    """All U of the batch, contiguous."""
    edge_order: Tensor
    """The edges of the batch, sorted by target, then by source."""

    @classmethod
    def unsupported(cls, request: Request) -> str | None:
        if request.dtype != torch.float32:
            return f"it computes in float32 only, not in {str(request.dtype).split('.')[-1]}"
        if request.psi not in (None, signed_sqrt):
            return "it knows ψ as the identity and as the signed square root only"
        if request.keep:
            return "it draws the factors of dropout itself and takes none"
        if request.return_attention:
            return "it never stores the attention weights and so cannot return them"
        return None

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
        values = terms.values
        request = Request(
            torch.promote_types(values.dtype, self.eigenvectors.dtype),
            values.device,
            terms.psi,
            keep is not None,
            return_attention,
            channels=terms.channels,
        )
        if self.unsupported(request) is not None:
            return self.fallback.attend(terms, dropout, keep, return_attention)
        # The seed comes from PyTorch's generator of the device, so torch.manual_seed makes dropout
        # repeatable.
        options: dict[str, Any] = {"dtype": torch.long, "device": values.device}
        seed = torch.randint(2**62, (), **options) if dropout else torch.zeros((), **options)
        return self.attend_seeded(terms, dropout, seed), None

    @abstractmethod
    def attend_seeded(self, terms: AttentionTerms, dropout: float, seed: Tensor) -> Tensor:
        """Computes the attention of one layer. A seed drops the same weights in every kernel."""

    def layer_inputs(
        self, terms: AttentionTerms, edges: EdgeTerms, table: PhiTable
    ) -> dict[str, Any]:
        """Returns what a layer contributes to the inputs of the operator, contiguous."""
        psi = IDENTITY if terms.psi is None else SIGNED_SQRT
        kinds = self.edge_order if edges.kinds is None else edges.kinds[self.edge_order]
        tensors = {
            "edge_kind": kinds,
            "edge_coefficients": edges.coefficients,
            "eigenvectors": self.eigenvectors,
            "importance": table.importance,
            "knots": table.phi1.knots,
            "slopes": table.phi1.slopes,
            "intercepts": table.phi1.intercepts,
            "values": terms.values,
            "queries": terms.queries,
            "keys": terms.keys,
            "edge_logits": edges.logits,
            "edge_values": edges.values,
        }
        contiguous = {name: None if x is None else x.contiguous() for name, x in tensors.items()}
        return {**contiguous, "psi": NO_FEATURES if terms.queries is None else psi}


def few_factors(coefficients: Tensor) -> bool:
    """Returns whether an operator can use coefficients as they are.

    There are no gradients for coefficients, which are usually data.
    """
    return coefficients.size(1) <= _FEW_FACTORS and not coefficients.requires_grad
