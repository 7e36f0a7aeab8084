"""Exphormer: sparse attention on edges, on an expander graph and on virtual nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter, softmax

from eigenformer.config import ExphormerConfig
from eigenformer.feed_forward import FeedForward
from eigenformer.models.gated_gcn import GatedGCNLayer
from eigenformer.models.peer import Inputs, Peer

# Attention scores are clamped to ± this, as in the authors' networks.
_CLAMP = 5.0


class Exphormer(Peer):
    """The graph transformer of `"Exphormer: Sparse Transformers for Graphs"
    <https://arxiv.org/abs/2303.06147>`_: GatedGCN beside sparse attention, as in GPS.

    The expander of a graph consists of random permutations of its nodes. They are a function of the
    number of nodes. Predictions therefore depend on the order of nodes, as the authors' do, but not
    on the batch.

    Args:
        config: The architecture.
    """

    config: ExphormerConfig

    def __init__(self, config: ExphormerConfig) -> None:
        super().__init__(config)
        d = config.hidden_dim
        # The features of attention along the expander, to virtual nodes, and from them.
        self.kinds = nn.Parameter(torch.randn(3, d))
        self.virtual = nn.Parameter(torch.randn(config.virtual_nodes, d))
        self.layers = nn.ModuleList(ExphormerLayer(config) for _ in range(config.layers))

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        nodes, graphs = len(inputs.x), len(inputs.sizes)
        edges = inputs.edges
        if edges is None:
            edges = inputs.x.new_ones(inputs.edge_index.size(1), inputs.x.size(1))
        far, kinds = self._more_edges(inputs.sizes, inputs.node_graph, nodes)
        index = torch.cat([inputs.edge_index, far], 1)
        features = torch.cat([edges, self.kinds.index_select(0, kinds)])
        x = torch.cat([inputs.x, self.virtual.repeat(graphs, 1)])
        for layer in self.layers:
            x, edges = layer(x, inputs.edge_index, edges, index, features)
        return x[:nodes]

    @torch.no_grad()
    def _more_edges(
        self, sizes: tuple[int, ...], node_graph: Tensor, nodes: int
    ) -> tuple[Tensor, Tensor]:
        """Returns the edges of expanders and virtual nodes, ``[2, M]``, and the kind of each."""
        pieces, start = [], 0
        for size in sizes:
            generator = torch.Generator().manual_seed(size)
            for _ in range(self.config.expander_degree // 2):
                pieces.append(start + torch.randperm(size, generator=generator))
            start += size
        device, count = node_graph.device, self.config.virtual_nodes
        there = torch.cat(pieces).to(device)
        places = torch.arange(nodes, device=device)
        half = self.config.expander_degree // 2
        here = torch.cat([part.repeat(half) for part in places.split(list(sizes))])
        of_node = (
            nodes + (node_graph[:, None] * count + torch.arange(count, device=device)).flatten()
        )
        real = places.repeat_interleave(count)
        source = torch.cat([here, there, real, of_node])
        target = torch.cat([there, here, of_node, real])
        kinds = torch.tensor([0, 1, 2], device=device)
        lengths = torch.tensor([2 * len(here), len(real), len(real)], device=device)
        return torch.stack([source, target]), kinds.repeat_interleave(lengths)


class ExphormerLayer(nn.Module):
    r"""One layer of Exphormer.

    .. math::
        \alpha_{ij} = \mathrm{softmax}_{j \to i} \Bigl( \frac{1}{\sqrt{c}} \sum_c
        Q x_i \odot K x_j \odot E e_{ij} \Bigr)

    where :math:`j \to i` runs over the edges of the graph, of the expander, and of virtual nodes.

    Args:
        config: The architecture.
    """

    def __init__(self, config: ExphormerConfig) -> None:
        super().__init__()
        d, self.heads = config.hidden_dim, config.heads
        self.local = GatedGCNLayer(d, config.dropout)
        self.in_proj = nn.Linear(d, 3 * d, bias=False)  # Q, K, V
        self.edge = nn.Linear(d, d, bias=False)  # E
        self.out = nn.Linear(d, d)
        self.local_norm, self.attention_norm, self.out_norm = (nn.BatchNorm1d(d) for _ in range(3))
        self.feed_forward = FeedForward(d, 2 * d, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, edges: Tensor, index: Tensor, features: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes the next nodes, real and virtual, and the next states of real edges."""
        local, edges = self.local(x, edge_index, edges)
        attended = self.attention_norm(x + self.dropout(self._attend(x, index, features)))
        both = self.local_norm(local) + attended
        return self.out_norm(both + self.feed_forward(both)), edges

    def _attend(self, x: Tensor, index: Tensor, features: Tensor) -> Tensor:
        source, target = index
        query, key, value = self.in_proj(x).chunk(3, 1)
        product = query[target] * key[source] * self.edge(features)
        scores = product.unflatten(1, (self.heads, -1)).sum(2) / (x.size(1) / self.heads) ** 0.5
        weights = softmax(scores.clamp(-_CLAMP, _CLAMP), target, num_nodes=len(x))
        weights = self.attention_dropout(weights)[..., None]
        messages = value[source].unflatten(1, (self.heads, -1)) * weights
        return self.out(scatter(messages.flatten(1), target, 0, len(x)))
