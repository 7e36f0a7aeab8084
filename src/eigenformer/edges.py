"""The edges of a batch, encoded: what layers take, and what they make logits of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenformer.ragged import RaggedGraphs

# Rows at a time: their hidden units stay in the cache.
_ROWS = 2048


@dataclass(frozen=True, eq=False)
class EncodedEdges:
    r"""Encoded features :math:`e_{ij}` of the edges :math:`j \to i` of a batch.

    Each edge has a row of its own; or, in a graph without parallel edges, edges share a few rows.

    Args:
        rows: ``[M, d]``, one for each column of ``edge_index``; or those that are shared.
        no_edge: :math:`e_{ij}` of a pair that is no edge, ``[d]`` (default: zeros).
        kind: ``[M]``, where many edges are alike: the row that each of them has.
        coefficients: ``[M, F]``, where edges are linear in F features:
            :math:`e_{ij} = e_{none} + \sum_f a_{ij}[f] \, rows[f]`.
    """

    rows: Tensor
    no_edge: Tensor | None = None
    kind: Tensor | None = None
    coefficients: Tensor | None = None

    def check(self, edges: int) -> None:
        """Raises an error where these are not the edges of a graph with so many columns."""
        if torch.compiler.is_compiling():  # sizes may be symbols there
            return
        if self.kind is not None and self.coefficients is not None:
            raise ValueError("edge_attr: edges have a kind or coefficients, not both")
        of_edges = next(x for x in (self.kind, self.coefficients, self.rows) if x is not None)
        if len(of_edges) != edges:
            raise ValueError(f"edge_attr: {len(of_edges)} rows, expected one for each of {edges}")
        if self.coefficients is not None and self.coefficients.shape != (edges, len(self.rows)):
            raise ValueError(
                f"edge_attr: coefficients of shape {tuple(self.coefficients.shape)}, expected one "
                f"for each of {len(self.rows)} rows"
            )

    def project(self, weight: Tensor, bias: Tensor, graphs: RaggedGraphs) -> Tensor:
        r""":math:`W e_{ij} + b` for each distinct edge of the batch, ``[M, out]``.

        What edges share is projected once.
        """
        if self.coefficients is not None:
            start = bias if self.no_edge is None else F.linear(self.no_edge, weight, bias)
            shared = F.linear(self.rows, weight).t()
            return F.linear(self.coefficients.to(shared.dtype), shared, start)
        if self.kind is not None:
            return F.linear(self.rows, weight, bias).index_select(0, self.kind)
        return F.linear(graphs.sum_parallel(self.rows), weight, bias)


def relu_logits(x: Tensor, weight: Tensor, bias: Tensor, heads: Tensor) -> Tensor:
    r"""A ReLU layer, summed head by head: :math:`W_R^h \, \rho(x W + b)`, ``[rows, H]``.

    Keeps nothing as large as the hidden units: computes them piece by piece, and once more on the
    way back. What is compiled is not cut up: a compiler would count the pieces.

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
    """relu(x W) S."""

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
