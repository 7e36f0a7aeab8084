"""EGT: a transformer with channels for all pairs of nodes beside those of nodes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eigenformer.blocks import Blocks, join_nodes, join_pairs, path_distances
from eigenformer.config import EGTConfig
from eigenformer.models.peer import Inputs, Peer

# Products of queries and keys are clamped to ± this, as in the authors' networks.
_CLAMP = 5.0


class EGT(Peer):
    """The edge-augmented graph transformer of `"Global Self-Attention as a Replacement for Graph
    Convolution" <https://arxiv.org/abs/2108.03348>`_.

    The states of pairs start from an embedding of their shortest-path distance and, at edges, from
    the edge features. Nodes take an encoding (``lappe``) where the authors have singular vectors.

    Args:
        config: The architecture.
    """

    config: EGTConfig

    def __init__(self, config: EGTConfig) -> None:
        super().__init__(config)
        d, width = config.hidden_dim, config.pair_width
        self.distance = nn.Embedding(config.max_distance + 2, width)
        self.edge = nn.Linear(d, width) if self.edge_encoder is not None else None
        self.layers = nn.ModuleList(EGTLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(d)

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        blocks = Blocks.of(inputs.sizes, inputs.edge_index)
        with torch.no_grad():
            distances = path_distances(blocks.adjacency(inputs.x.dtype), self.config.max_distance)
        x, pairs = inputs.x[blocks.order], self.distance(distances)
        if self.edge is not None and inputs.edges is not None:
            pairs = pairs.index_add(0, blocks.edge_pair, self.edge(inputs.edges))
        for number, layer in enumerate(self.layers, 1):
            x, pairs = layer(x, pairs, blocks, last=number == len(self.layers))
        return self.norm(x)[blocks.inverse]


class EGTLayer(nn.Module):
    r"""One layer of EGT.

    .. math::
        \hat{h}_{ij} &= \mathrm{clip} \bigl( q_i \cdot k_j / \sqrt{c} \bigr) + W_E \hat{e}_{ij} \\
        \hat{x}_i &= \log \Bigl( 1 + \sum_j g_{ij} \Bigr) \sum_j \mathrm{softmax}_j(\hat{h}_{ij}) \,
        g_{ij} v_j, \qquad g_{ij} = \sigma(W_G \hat{e}_{ij}) \\
        x_i' &= x_i + W_O \hat{x}_i, \qquad e_{ij}' = e_{ij} + W_{Oe} \hat{h}_{ij}

    with :math:`\hat{e} = \mathrm{LN}(e)`. Feed-forward networks for nodes and for pairs follow.

    Args:
        config: The architecture.
    """

    def __init__(self, config: EGTConfig) -> None:
        super().__init__()
        d, width, self.heads = config.hidden_dim, config.pair_width, config.heads
        self.node_norm, self.pair_norm = nn.LayerNorm(d), nn.LayerNorm(width)
        self.in_proj, self.node_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.bias_and_gate = nn.Linear(width, 2 * config.heads)  # W_E, W_G
        self.pair_out = nn.Linear(config.heads, width)  # W_Oe
        self.node_network, self.pair_network = (_network(n, config.dropout) for n in (d, width))
        self.dropout, self.attention_dropout = nn.Dropout(config.dropout), config.attention_dropout

    def forward(
        self, x: Tensor, pairs: Tensor, blocks: Blocks, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Computes the next nodes ``[Σn, d]`` and pairs ``[Σn², width]``.

        After the ``last`` layer nobody looks at the pairs, which are then returned unchanged.
        """
        of_nodes = blocks.nodes(self.in_proj(self.node_norm(x)))
        of_pairs = blocks.pairs(self.bias_and_gate(self.pair_norm(pairs)))
        attended, hidden = [], []
        for node, pair in zip(of_nodes, of_pairs, strict=True):
            q, k, v = node.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            bias, gate = pair.permute(0, 3, 1, 2).chunk(2, 1)
            scores = (q @ k.mT / q.size(-1) ** 0.5).clamp(-_CLAMP, _CLAMP) + bias
            gates = gate.sigmoid()
            weights = F.dropout(scores.softmax(-1) * gates, self.attention_dropout, self.training)
            out = (weights @ v) * gates.sum(-1, keepdim=True).log1p()
            attended.append(out.transpose(1, 2).flatten(2))
            hidden.append(scores.permute(0, 2, 3, 1))
        x = x + self.dropout(self.node_out(join_nodes(attended)))
        x = x + self.dropout(self.node_network(x))
        if not last:
            pairs = pairs + self.dropout(self.pair_out(join_pairs(hidden)))
            pairs = pairs + self.dropout(self.pair_network(pairs))
        return x, pairs


def _network(width: int, dropout: float) -> nn.Module:
    """Makes a feed-forward network that normalises first."""
    maps = nn.Linear(width, 2 * width), nn.ELU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
    return nn.Sequential(nn.LayerNorm(width), *maps)
