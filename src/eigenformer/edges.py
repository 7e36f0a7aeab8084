"""The encoded edges of a batch: the rows that they share, and how they are projected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eigenformer.encoders import FeatureEncoder
from eigenformer.kernels.base import EdgeTerms
from eigenformer.ragged import RaggedGraphs

# Rows per piece: few enough for their hidden units to stay in the cache.
_ROWS = 2048


@dataclass(frozen=True, eq=False)
class Edges:
    r"""Encoded features :math:`e_{ij}` of the distinct edges :math:`j \to i` of a batch.

    Each edge has its own row, or the edges share a few rows. Attention uses *differences to a pair
    without an edge*: a term that all pairs have in common cancels in the softmax or is part of the
    values. So no tensor here is as large as all pairs of nodes.

    Args:
        rows: ``[M, d]``, one row per column of ``RaggedGraphs.edge_index``; or the shared rows.
        no_edge: :math:`e_{ij}` of a pair without an edge, ``[d]`` (default: zeros).
        kinds: ``[M]``, the row of each edge, if edges of the same kind share a row.
        coefficients: ``[M, F]``, if edges are linear in F features:
            :math:`e_{ij} = e_{none} + \sum_f a_{ij}[f] \, rows[f]`.
    """

    rows: Tensor
    no_edge: Tensor | None = None
    kinds: Tensor | None = None
    coefficients: Tensor | None = None

    @classmethod
    def encode(cls, encoder: FeatureEncoder, edge_attr: Tensor, graphs: RaggedGraphs) -> Edges:
        """Encodes raw features, given as one row per input edge.

        Edges share rows if the encoder supports it. If there are parallel edges, their encoded
        features are summed and no rows are shared.
        """
        no_edge = encoder.no_edge()
        if graphs.edge_slot is None:
            kinds, factors = encoder.kinds(edge_attr), encoder.factors(edge_attr)
            if kinds is not None:
                return cls(encoder(kinds[0]), no_edge, kinds=kinds[1])
            if factors is not None:
                return cls(factors[0], no_edge, coefficients=factors[1])
        return cls(graphs.sum_parallel(encoder(edge_attr)), no_edge)

    @classmethod
    def of(
        cls, edge_attr: Tensor | Edges, graphs: RaggedGraphs, no_edge: Tensor | None = None
    ) -> Edges:
        """Checks and returns edges, or makes them of encoded features, one row per input edge."""
        if isinstance(edge_attr, Tensor):
            _check_rows(edge_attr, graphs.num_edges)
            return cls(graphs.sum_parallel(edge_attr), no_edge)
        edge_attr.check(graphs.edge_index.size(1))
        return edge_attr

    def check(self, edges: int) -> None:
        """Raises an error if these do not fit a batch with this number of distinct edges."""
        if self.kinds is not None and self.coefficients is not None:
            raise ValueError("edge_attr: edges have kinds or coefficients, not both")
        of_edges = next(x for x in (self.kinds, self.coefficients, self.rows) if x is not None)
        _check_rows(of_edges, edges)
        a = self.coefficients
        if (
            a is not None
            and not torch.compiler.is_compiling()
            and a.shape[1:] != self.rows.shape[:1]
        ):
            raise ValueError(
                f"edge_attr: coefficients of shape {tuple(a.shape)}, expected one for each of "
                f"{len(self.rows)} rows"
            )

    def project(self, weight: Tensor, bias: Tensor) -> Tensor:
        r"""Returns :math:`W e_{ij} + b` of each edge, ``[M, out]``. Projects shared rows once."""
        if self.coefficients is not None:
            start = bias if self.no_edge is None else F.linear(self.no_edge, weight, bias)
            shared = F.linear(self.rows, weight).t()
            return F.linear(self.coefficients.to(shared.dtype), shared, start)
        projected = F.linear(self.rows, weight, bias)
        return projected if self.kinds is None else projected.index_select(0, self.kinds)

    def shared(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, EdgeTerms]:
        r"""Returns what all edges have in common, ``[d]``, and the rest in rows ``[*, 1, d]``: they
        add up to :math:`W e_{ij} + b`. Rows that edges share stay shared.
        """
        rows = F.linear(self.rows, weight)[:, None]
        everywhere = bias
        if self.coefficients is not None and self.no_edge is not None:
            everywhere = F.linear(self.no_edge, weight, bias)
        return everywhere, EdgeTerms(rows, None, self.kinds, self.coefficients)

    def terms(
        self,
        value: nn.Linear,
        heads: int,
        hidden: nn.Linear | None = None,
        logit_weight: Tensor | None = None,
    ) -> tuple[Tensor, EdgeTerms]:
        r"""Returns what edges add to attention: :math:`W_E e_{none} + b`, ``[d]``, for every pair
        of nodes, and the differences to it at edges.

        .. math::
            \sum_j \alpha_{ij} W_E e_{ij} = \sum_j \alpha_{ij} W_E e_{none}
            + \sum_{edges} \alpha_{ij} W_E (e_{ij} - e_{none})

        The second sum runs over edges only; there is no N × N × d tensor.

        Args:
            value: :math:`W_E`.
            heads: H, the number of heads.
            hidden: :math:`W_A`, for feature attention.
            logit_weight: :math:`W_R`, ``[H, d / H]``, for feature attention.
        """
        none = self.rows.new_zeros(self.rows.size(1)) if self.no_edge is None else self.no_edge
        none = none[None]
        everywhere = value(none)[0]
        rows = self.rows if self.coefficients is not None else self.rows - none
        values = F.linear(rows, value.weight).view(-1, heads, value.out_features // heads)
        logits = None
        if hidden is not None and logit_weight is not None:
            logits = self._logits(none, hidden, logit_weight)
        return everywhere, EdgeTerms(values, logits, self.kinds, self.coefficients)

    def _logits(self, none: Tensor, hidden: nn.Linear, logit_weight: Tensor) -> Tensor:
        """Returns W_R ρ(W_A e_ij) − W_R ρ(W_A e_none), ``[rows or M, heads]``.

        The second term, like the bias of W_R, is common to all pairs and cancels in the softmax.
        """
        weight, bias = hidden.weight.t(), hidden.bias
        with torch.autocast(self.rows.device.type, enabled=False):
            rows, none = self.rows.to(weight.dtype), none.to(weight.dtype)
            at_none = relu_logits(none, weight, bias, logit_weight)
            if self.coefficients is None:
                return relu_logits(rows, weight, bias, logit_weight) - at_none
            # W_A e_ij = W_A e_none + Σ_f a_ij[f] W_A rows[f]
            shared, start = rows @ weight, torch.addmm(bias, none, weight)[0]
            coefficients = self.coefficients.to(weight.dtype)
            return relu_logits(coefficients, shared, start, logit_weight) - at_none


def _check_rows(rows: Tensor, edges: int) -> None:
    if not torch.compiler.is_compiling() and len(rows) != edges:  # sizes may be symbolic there
        raise ValueError(f"edge_attr: {len(rows)} rows, expected one for each of {edges}")


def relu_logits(x: Tensor, weight: Tensor, bias: Tensor, heads: Tensor) -> Tensor:
    r"""Computes a ReLU layer, summed per head: :math:`W_R^h \, \rho(x W + b)`, ``[rows, H]``.

    Keeps nothing as large as the hidden units: they are computed piece by piece, and again in the
    backward pass. Compiled code does not split the rows, because a compiler would fix the number
    of pieces.

    Args:
        x: ``[rows, F]``.
        weight: W, ``[F, d]``.
        bias: b, ``[d]``.
        heads: :math:`W_R`, ``[H, d / H]``.
    """
    if torch.compiler.is_compiling():
        hidden = torch.addmm(bias, x, weight).relu()
        return (hidden.unflatten(1, heads.shape) * heads).sum(-1)
    with_one = torch.cat([x, x.new_ones(len(x), 1)], 1)
    own = torch.eye(len(heads), dtype=heads.dtype, device=heads.device)[:, None]
    spread = heads[:, :, None] * own
    return _ReLULogits.apply(with_one, torch.cat([weight, bias[None]]), spread.flatten(0, 1))


class _ReLULogits(torch.autograd.Function):
    """Computes relu(x W) S."""

    @staticmethod
    def forward(x: Tensor, w: Tensor, s: Tensor) -> Tensor:
        return torch.cat([(part @ w).relu_() @ s for part in x.split(_ROWS)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, w, s = ctx.saved_tensors
        d_w, d_s, d_x = torch.zeros_like(w), torch.zeros_like(s), []
        for part, d in zip(x.split(_ROWS), d_out.split(_ROWS), strict=True):
            hidden = (part @ w).relu()
            d_s = d_s + hidden.t() @ d
            d_hidden = torch.ops.aten.threshold_backward(d @ s.t(), hidden, 0)
            d_w = d_w + part.t() @ d_hidden
            if ctx.needs_input_grad[0]:
                d_x.append(d_hidden @ w.t())
        return torch.cat(d_x) if d_x else None, d_w, d_s
