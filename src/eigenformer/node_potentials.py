"""Node potentials: a learned filter of the spectrum, evaluated for each node with itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from eigenformer.kernels import AttentionKernel
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import ScalarMLP


class NodePotentials(nn.Module):
    r"""Adds learned node potentials to the encoded nodes.

    .. math::
        p_i[c] = \sum_k u_k[i]^2 \, \phi^c(\lambda_k), \qquad
        x_i' = x_i + W \, \mathrm{BN}(p_i)

    Node potentials are the diagonal of a learned filter :math:`U \phi(\Lambda) U^\top`. This is the
    factorisation of the paper's attention, for a node with itself. The softmax average of equal
    features is the same features again. Without potentials, the structure therefore reaches a node
    only through its degree and its edges. Like attention, potentials depend neither on the signs
    of eigenvectors nor on the basis of an eigenspace. They do not need pairs of nodes.

    A node without neighbours gets the potentials of a node in a graph of one edge,
    :math:`\tfrac{1}{2} (\phi(0) + \phi(2))`. Its own, :math:`\phi(0)`, are an outlier: for all
    other nodes, the weights :math:`u_k[i]^2` have the mean eigenvalue :math:`L_{ii} = 1`. Their
    potentials therefore differ little, and batch norm would map :math:`\phi(0)` to dozens of
    standard deviations.

    Args:
        channels: d, the width of the nodes.
        potentials: The number of filters.
        width: The hidden width of each :math:`\phi`.
        gain: The scale of the initial weights of each :math:`\phi`; see :class:`ScalarMLP`.
    """

    def __init__(
        self, channels: int, potentials: int, width: int = 16, gain: float = 6**0.5
    ) -> None:
        super().__init__()
        self.phi = ScalarMLP(potentials, width, gain=gain)
        self.norm = nn.BatchNorm1d(potentials)
        self.linear = nn.Linear(potentials, channels)

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        for module in (self.phi, self.norm, self.linear):
            module.reset_parameters()

    def forward(self, x: Tensor, graphs: AttentionKernel) -> Tensor:
        return x + self.linear(self.norm(self.potentials(graphs).to(x.dtype)))

    def potentials(self, graphs: AttentionKernel) -> Tensor:
        """Returns the potentials p, ``[Σn, potentials]``."""
        structure = graphs.graphs
        with torch.autocast(structure.eigenvalues.device.type, enabled=False):
            (importance,) = graphs.importances([self.phi], self.phi.heads)
            if torch.compiler.is_compiling():
                blocks = _blocks(structure, structure.eigenvectors.square(), importance)
                potentials = torch.cat([squares @ rows for squares, rows in blocks])
            else:
                potentials = _Diagonals.apply(importance, structure)
            edge = 2 * torch.arange(2, dtype=importance.dtype, device=importance.device)
            alone = self.phi(edge.expand(self.phi.heads, 2)).mean(1)
            return potentials.where((structure.degrees > 0)[:, None], alone)


def _blocks(graphs: RaggedGraphs, entries: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields, for each graph, its matrix ``[n, k]`` of ``entries`` and its k ``rows``."""
    counts = [n * k for n, k in zip(graphs.sizes, graphs.num_frequencies, strict=True)]
    matrices, parts = entries.split(counts), rows.split(list(graphs.num_frequencies))
    for n, k, matrix, part in zip(
        graphs.sizes, graphs.num_frequencies, matrices, parts, strict=True
    ):
        yield matrix.view(n, k), part


class _Diagonals(torch.autograd.Function):
    """Computes the diagonals of U diag(f) Uᵀ for columns f, per graph, with few small tensors."""

    @staticmethod
    def forward(ctx: Any, importance: Tensor, graphs: RaggedGraphs) -> Tensor:
        ctx.graphs, ctx.squares = graphs, graphs.eigenvectors.square()
        out = importance.new_empty(graphs.num_nodes, importance.size(1))
        blocks = _blocks(graphs, ctx.squares, importance)
        for (squares, rows), result in zip(blocks, out.split(list(graphs.sizes)), strict=True):
            torch.mm(squares, rows, out=result)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, None]:
        graphs: RaggedGraphs = ctx.graphs
        d_importance = d_out.new_empty(len(graphs.eigenvalues), d_out.size(1))
        blocks = _blocks(graphs, ctx.squares, d_importance)
        for (squares, rows), d in zip(blocks, d_out.split(list(graphs.sizes)), strict=True):
            torch.mm(squares.t(), d, out=rows)
        return d_importance, None
