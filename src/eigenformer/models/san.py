"""SAN: attention to neighbours and attention to all other nodes, with weights of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter, softmax

from eigenformer.blocks import Blocks, join_nodes
from eigenformer.config import SANConfig
from eigenformer.feed_forward import FeedForward
from eigenformer.models.peer import Inputs, Peer

# Attention scores are clamped to ± this, as in the authors' networks.
_CLAMP = 5.0


class SAN(Peer):
    """The graph transformer of `"Rethinking Graph Transformers with Spectral Attention"
    <https://arxiv.org/abs/2106.03893>`_.

    Its eigenvectors are encoded like every ``lappe`` here, as a set, where the authors have a
    transformer over the eigenvectors of each node.

    Args:
        config: The architecture.
    """

    config: SANConfig

    def __init__(self, config: SANConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(SANLayer(config) for _ in range(config.layers))

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        blocks = Blocks.of(inputs.sizes, inputs.edge_index)
        x, edges = inputs.x[blocks.order], inputs.edges
        edge_index = blocks.inverse[inputs.edge_index]
        with torch.no_grad():
            flat = torch.zeros(blocks.num_pairs, dtype=torch.bool, device=x.device)
            flat[blocks.edge_pair] = True
            others = [~block for block in blocks.pairs(flat)]
        if edges is None:
            edges = x.new_ones(edge_index.size(1), x.size(1))
        for layer in self.layers:
            x = layer(x, edge_index, edges, others, blocks)
        return x[blocks.inverse]


class SANLayer(nn.Module):
    r"""One layer of SAN.

    .. math::
        \alpha_{ij} = \begin{cases}
        \frac{1}{1 + \gamma} \, \mathrm{softmax}_{j \to i} ( Q_1 x_i \odot K_1 x_j
        \odot E_1 e_{ij} ) & \text{for edges} \\
        \frac{\gamma}{1 + \gamma} \, \mathrm{softmax}_{j \not\to i} ( Q_2 x_i \odot K_2 x_j
        \odot e_2 ) & \text{for all other pairs}
        \end{cases}

    with the sum over the channels of a head, divided by √c. Edges are computed one by one, and the
    other pairs as a product of matrices, so that there is no N × N × d tensor.

    Args:
        config: The architecture.
    """

    def __init__(self, config: SANConfig) -> None:
        super().__init__()
        d, self.heads, self.gamma = config.hidden_dim, config.heads, config.gamma
        self.near = nn.Linear(d, 2 * d, bias=False)  # Q₁, K₁
        self.far = nn.Linear(d, 2 * d, bias=False)  # Q₂, K₂
        self.edge = nn.Linear(d, d, bias=False)  # E₁
        self.no_edge = nn.Parameter(torch.randn(d) / d**0.5)  # e₂
        self.value, self.out = nn.Linear(d, d, bias=False), nn.Linear(d, d)
        self.norm1, self.norm2 = nn.BatchNorm1d(d), nn.BatchNorm1d(d)
        self.feed_forward = FeedForward(d, 2 * d, config.dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, edges: Tensor, others: Sequence[Tensor], blocks: Blocks
    ) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``; ``others`` are the pairs without an edge."""
        value = self.value(x)
        near = self._near(x, value, edge_index, self.edge(edges))
        attended = (near + self.gamma * self._far(x, value, others, blocks)) / (1 + self.gamma)
        x = self.norm1(x + self.dropout(self.out(attended)))
        return self.norm2(x + self.feed_forward(x))

    def _near(self, x: Tensor, value: Tensor, edge_index: Tensor, edges: Tensor) -> Tensor:
        source, target = edge_index
        query, key = self.near(x).chunk(2, 1)
        product = (query[target] * key[source] * edges).unflatten(1, (self.heads, -1))
        scores = (product.sum(2) / product.size(2) ** 0.5).clamp(-_CLAMP, _CLAMP)
        weights = self.attention_dropout(softmax(scores, target, num_nodes=len(x)))
        messages = value[source].unflatten(1, (self.heads, -1)) * weights[..., None]
        return scatter(messages.flatten(1), target, 0, len(x))

    def _far(self, x: Tensor, value: Tensor, others: Sequence[Tensor], blocks: Blocks) -> Tensor:
        query, key = self.far(x).chunk(2, 1)
        terms = (blocks.nodes(part) for part in (query * self.no_edge, key, value))
        out = []
        for q, k, v, other in zip(*terms, others, strict=True):
            q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
            scores = (q @ k.mT / q.size(-1) ** 0.5).clamp(-_CLAMP, _CLAMP)
            # A node with edges to all nodes, also to itself, has no others.
            weights = scores.exp().masked_fill(~other[:, None], 0.0)
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
            out.append((self.attention_dropout(weights) @ v).transpose(1, 2).flatten(2))
        return join_nodes(out)
