"""Drop path: branches of a layer are left out at random in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eigenformer.ragged import RaggedGraphs


class DropPath(nn.Module):
    r"""Leaves out a branch for random graphs, from `"Deep Networks with Stochastic Depth"
    <https://arxiv.org/abs/1603.09382>`_.

    .. math::
        x' = x + \frac{b_{g}}{1 - r} f(x), \qquad b_{g} \sim \mathrm{Bernoulli}(1 - r)

    All nodes of a graph :math:`g` share :math:`b_g`. A graph that keeps its branch scales it, so
    that evaluation, which keeps all branches, sees branches of the same size on average.

    Args:
        rate: r, the probability of leaving out a branch, in [0, 1).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor, graphs: RaggedGraphs) -> Tensor | None:
        """Returns the factor of each node's branch, ``[Σn, 1]``; None if all branches are kept."""
        if not self.training or not self.rate:
            return None
        kept = torch.rand(graphs.num_graphs, 1, device=x.device) >= self.rate
        factors = kept.to(x.dtype) / (1 - self.rate)
        return factors.index_select(0, graphs.node_graph)

    def extra_repr(self) -> str:
        return f"rate={self.rate:g}"


def growing_rates(rate: float, layers: int) -> list[float]:
    """Returns the rate of each layer: it grows linearly, from 0 to ``rate`` in the last layer."""
    return [rate * layer / (layers - 1) for layer in range(layers)] if layers > 1 else [rate]
