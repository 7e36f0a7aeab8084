"""Learned filters of the spectrum, applied to the nodes: no pairs and no softmax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import ScalarMLP


class SpectralFilters(nn.Module):
    r"""Filters the nodes of each graph by functions of its spectrum.

    .. math::
        f = W \, \bigl\Vert_c \; U \, \phi^c(\Lambda) \, U^\top x_c

    where :math:`c` runs over groups of channels, each with its own :math:`\phi^c`. The entries of
    :math:`U \phi(\Lambda) U^\top` are the paper's pair potentials. Here they are the weights of the
    sum themselves: they may be negative, and they do not add up to 1, so that a filter can count
    and take differences, which a softmax average cannot. The same idea in other networks:
    `"Specformer" <https://arxiv.org/abs/2303.01028>`_,
    `"Spatio-Spectral Graph Neural Networks" <https://arxiv.org/abs/2405.19121>`_.

    Args:
        channels: d, the width of the nodes.
        filters: The number of filters. Must divide ``channels``.
        width: The hidden width of each :math:`\phi`.
        gain: The scale of the initial weights of each :math:`\phi`; see :class:`ScalarMLP`.
        dropout: Dropout on the result.
    """

    def __init__(
        self,
        channels: int,
        filters: int,
        width: int = 12,
        gain: float = 6**0.5,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if filters < 1 or channels % filters:
            raise ValueError(f"filters must divide channels, got {filters} and {channels}")
        self.phi = ScalarMLP(filters, width, gain=gain)
        self.out = nn.Linear(channels, channels)  # W
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        for module in (self.phi, self.out):
            module.reset_parameters()

    def forward(self, x: Tensor, graphs: RaggedGraphs) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``."""
        return self.dropout(self.out(self.filtered(x, graphs).to(x.dtype)))

    def filtered(self, values: Tensor, graphs: RaggedGraphs) -> Tensor:
        """Applies the filters to values ``[Σn, d]``, without linear maps."""
        eigenvalues, heads = graphs.eigenvalues, self.phi.heads
        with torch.autocast(values.device.type, enabled=False):
            importance = self.phi(eigenvalues.expand(heads, -1)).t()
            if graphs.frequency_weights is not None:
                importance = importance * graphs.frequency_weights[:, None]
            return _Filter.apply(values.to(eigenvalues.dtype), importance, graphs)


def _blocks(graphs: RaggedGraphs) -> Iterator[tuple[Tensor, slice, slice]]:
    node = entry = value = 0
    for n, k in zip(graphs.sizes, graphs.frequencies, strict=True):
        u = graphs.eigenvectors[entry : entry + n * k].view(n, k)
        yield u, slice(node, node + n), slice(value, value + k)
        node, entry, value = node + n, entry + n * k, value + k


class _Filter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, importance: Tensor, graphs: RaggedGraphs) -> Tensor:
        heads, channels = importance.size(1), values.size(1)
        modes = values.new_empty(len(importance), channels)
        blocks = list(_blocks(graphs))
        for u, nodes, rows in blocks:
            torch.mm(u.t(), values[nodes], out=modes[rows])
        weighted = (modes.view(-1, heads, channels // heads) * importance[..., None]).flatten(1)
        out = torch.empty_like(values)
        for u, nodes, rows in blocks:
            torch.mm(u, weighted[rows], out=out[nodes])
        ctx.graphs = graphs
        ctx.save_for_backward(modes, importance)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, Tensor, None]:
        modes, importance = ctx.saved_tensors
        heads, channels = importance.size(1), d_out.size(1)
        d_weighted = torch.empty_like(modes)
        blocks = list(_blocks(ctx.graphs))
        for u, nodes, rows in blocks:
            torch.mm(u.t(), d_out[nodes], out=d_weighted[rows])
        shape = (-1, heads, channels // heads)
        d_importance = (modes.view(shape) * d_weighted.view(shape)).sum(-1)
        d_modes = (d_weighted.view(shape) * importance[..., None]).flatten(1)
        d_values = torch.empty_like(d_out)
        for u, nodes, rows in blocks:
            torch.mm(u, d_modes[rows], out=d_values[nodes])
        return d_values, d_importance, None
