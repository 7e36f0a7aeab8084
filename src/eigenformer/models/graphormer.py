"""Graphormer: a transformer with biases of shortest paths and of the edges on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.blocks import Blocks, join_nodes, path_distances
from eigenformer.config import GraphormerConfig
from eigenformer.models.peer import Inputs, Peer
from eigenformer.models.transformer import TransformerLayer
from eigenformer.ragged import frequency_counts


class Graphormer(Peer):
    r"""The graph transformer of `"Do Transformers Really Perform Badly for Graph Representation?"
    <https://arxiv.org/abs/2106.05234>`_.

    .. math::
        x_i^0 &= \mathrm{enc}(x_i) + z_{\deg(i)} \\
        A_{ij} &= \frac{q_i \cdot k_j}{\sqrt{c}} + b_{\phi(i, j)} + c_{ij} \\
        c_{ij} &= \frac{1}{\phi(i, j)} \sum_{t = 1}^{\phi(i, j)} w_t \cdot e_t

    where :math:`\phi` is the shortest-path distance, and :math:`e_t` the t-th edge of a shortest
    path. All layers share the biases. Two things differ: the edges are averaged over all shortest
    paths instead of taken from one, so that the result does not depend on the order of nodes, and
    graphs are pooled instead of read from a virtual node.

    Options: a bias of the resistance distance, from `"Rethinking the Expressive Power of GNNs via
    Graph Biconnectivity" <https://arxiv.org/abs/2301.09505>`_, and a factor of attention weights,
    URPE, from `"Your Transformer May Not be as Powerful as You Expect"
    <https://arxiv.org/abs/2205.13401>`_.

    Args:
        config: The architecture.
    """

    config: GraphormerConfig

    def __init__(self, config: GraphormerConfig) -> None:
        super().__init__(config)
        d, heads = config.hidden_dim, config.heads
        self.degree = nn.Embedding(config.max_degree + 1, d)
        self.distance = nn.Embedding(config.max_distance + 2, heads)
        self.path = (
            None
            if self.edge_encoder is None
            else nn.Linear(d, config.path_length * heads, bias=False)
        )
        self.resistance = (
            nn.Sequential(nn.Linear(1, 2 * heads), nn.GELU(), nn.Linear(2 * heads, heads))
            if config.resistance
            else None
        )
        self.factor = nn.Embedding(config.max_distance + 2, heads) if config.urpe else None
        self.layers = nn.ModuleList(
            TransformerLayer(d, heads, d, config.dropout, config.attention_dropout)
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(d)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts without the influence of degrees and distances."""
        for embedding in (self.degree, self.distance):
            nn.init.normal_(embedding.weight, std=0.02)
        if self.factor is not None:
            nn.init.ones_(self.factor.weight)

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        blocks = Blocks.of(inputs.sizes, inputs.edge_index)
        with torch.no_grad():
            adjacency = blocks.adjacency(inputs.x.dtype)
            degrees = join_nodes(a.sum(2) for a in adjacency).long()
            distances = path_distances(adjacency, self.config.max_distance)
        x = inputs.x[blocks.order] + self.degree(degrees.clamp(max=self.config.max_degree))
        bias = self.distance(distances)
        if self.resistance is not None:
            bias = bias + self.resistance(
                resistances(inputs.batch, inputs.sizes, adjacency, blocks)
            )
        biases = heads_first(blocks, bias)
        if self.path is not None and inputs.edges is not None:
            steps = self.path(inputs.edges)
            flat = steps.new_zeros(blocks.num_pairs, steps.size(1))
            steps = flat.index_add(0, blocks.edge_pair, steps)
            of_paths = self._path_means(adjacency, blocks.pairs(distances), blocks.pairs(steps))
            biases = [b + p for b, p in zip(biases, of_paths, strict=True)]
        factors = None if self.factor is None else heads_first(blocks, self.factor(distances))
        for layer in self.layers:
            x = layer(x, blocks, biases, factors)
        return self.norm(x)[blocks.inverse]

    def _path_means(
        self, adjacency: Sequence[Tensor], distances: Sequence[Tensor], steps: Sequence[Tensor]
    ) -> list[Tensor]:
        """Returns c, ``[B, H, n, n]``: means over the edges of all shortest paths, by distance."""
        means = []
        for a, distance, step in zip(adjacency, distances, steps, strict=True):
            of_step = step.unflatten(-1, (self.config.path_length, -1)).permute(3, 0, 4, 1, 2)
            a, distance = a[:, None], distance[:, None]
            paths = torch.eye(a.size(-1), dtype=a.dtype, device=a.device).expand_as(a)
            total, mean = torch.zeros_like(of_step[0]), torch.zeros_like(of_step[0])
            for length, edges in enumerate(of_step, 1):
                there = distance == length
                # A shortest path to j is one to a neighbour of j, and the edge to j.
                total = (total @ a + paths @ edges).masked_fill(~there, 0.0)
                paths = (paths @ a).masked_fill(~there, 0.0)
                mean = mean + total / (length * paths.clamp(min=1))
            means.append(mean)
        return means


def heads_first(blocks: Blocks, pairs: Tensor) -> list[Tensor]:
    """Views pairs ``[Σn², H]`` as blocks ``[B, H, n, n]``."""
    return [block.permute(0, 3, 1, 2) for block in blocks.pairs(pairs)]


@torch.no_grad()
def resistances(
    batch: Data, sizes: tuple[int, ...], adjacency: Sequence[Tensor], blocks: Blocks
) -> Tensor:
    r"""Returns the resistance distances of all pairs, ``[Σn², 1]``, from full spectra.

    .. math::
        r_{ij} = \sum_{\lambda_m > 0} \frac{1}{\lambda_m} \Bigl( \frac{u_m[i]}{\sqrt{d_i}}
        - \frac{u_m[j]}{\sqrt{d_j}} \Bigr)^2

    The distance of nodes that no path connects is -1.
    """
    if frequency_counts(batch, sizes) != sizes:
        raise ValueError("resistance distances need full spectra, without num_frequencies")
    dtype = adjacency[0].dtype
    values, vectors = batch.eigenvalues.to(dtype), batch.eigenvectors.to(dtype)
    each = zip(values.split(list(sizes)), vectors.split([n * n for n in sizes]), strict=True)
    found = list(each)
    parts, number = [], 0
    for a in adjacency:
        chosen = [found[g] for g in blocks.graphs[number : number + len(a)]]
        number += len(a)
        value = torch.stack([v for v, _ in chosen])
        vector = torch.stack([u for _, u in chosen]).view_as(a)
        scaled = vector / a.sum(2, keepdim=True).clamp(min=1).sqrt()
        inverse = torch.where(value > 0, 1 / value.clamp(min=1e-9), 0.0)[:, None]
        product = (scaled * inverse) @ scaled.mT
        loops = product.diagonal(0, 1, 2)
        resistance = loops[:, :, None] + loops[:, None] - 2 * product
        constant = vector * (value == 0)[:, None]
        connected = (constant @ constant.mT).abs() > 1e-6
        parts.append(resistance.masked_fill(~connected, -1.0).flatten())
    return torch.cat(parts)[:, None]
