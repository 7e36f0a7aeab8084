"""The equations, line by line: graphs padded to the largest, φ unit by unit on every pair."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenformer.kernels.base import AttentionKernel, AttentionTerms, ScalarFunction
from eigenformer.kernels.padded import PaddedGraphs
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs


class LiteralAttention(AttentionKernel):
    """The oracle. Takes any functions as φ₁ and φ₂, and stores B·H·N²·p numbers for their MLPs."""

    name: ClassVar[Backend] = "literal"

    def __init__(self, graphs: RaggedGraphs) -> None:
        super().__init__(graphs)
        self.padded = PaddedGraphs(graphs, range(graphs.num_graphs))

    def attend(
        self,
        terms: AttentionTerms,
        dropout: float = 0.0,
        keep: Tensor | None = None,
        return_attention: bool = False,
    ) -> tuple[Tensor, list[Tensor] | None]:
        edges = terms.edges.by_edge()
        p = self.padded
        # α_spec = φ₁(Σ_k σ_k[i,j] φ₂(λ_k))
        logits = terms.phi1(self.scores(terms.phi2, terms.heads))
        # α_feat = ψ(q_i·k_j / √(d/H)) + W_R ρ(W_A e_ij)
        if terms.queries is not None and terms.keys is not None:
            q, k = p.heads_first(terms.queries[p.node]), p.heads_first(terms.keys[p.node])
            logits = logits + terms.feature_logits(q, k)
        if edges.logits is not None:
            at_edges = edges.logits[p.edge].T
            logits = logits.flatten(1).index_add(1, p.edge_pair, at_edges).view_as(logits)
        # α = softmax over j in the graph
        attention = logits.masked_fill(~p.present[:, None, :], -torch.inf).softmax(-1)
        dropped = F.dropout(attention, dropout) if keep is None else attention * p.pairs(keep)
        # x̂_i = Σ_j α[i,j] (v_j + w_ij)
        v = p.heads_first(terms.values[p.node])
        out = torch.einsum("hbij,hbjc->bihc", dropped, v).flatten(0, 1)
        if edges.values is not None:
            at_edges = dropped.flatten(1)[:, p.edge_pair].T
            message = at_edges[..., None] * edges.values[p.edge]
            out = out.index_add(0, p.edge_target, message)
        out = out[p.present.flatten()]
        return out, list(p.each(attention).values()) if return_attention else None

    def scores(self, phi2: ScalarFunction, heads: int) -> Tensor:
        """Returns Σ_k u_k[i] u_k[j] φ₂(λ_k), ``[heads, graphs, N, N]``, padded with 0."""
        u, frequency = self.padded.eigenvectors, self.padded.frequency
        importance = phi2(self.graphs.eigenvalues[frequency].expand(heads, -1, -1))
        if self.graphs.frequency_weights is not None:
            importance = importance * self.graphs.frequency_weights[frequency]
        return torch.einsum("bik,hbk,bjk->hbij", u, importance, u)
