"""GPS: messages along edges beside attention between all nodes."""

from __future__ import annotations

from torch import Tensor, nn

from eigenformer.blocks import BlockAttention, Blocks
from eigenformer.config import GPSConfig
from eigenformer.feed_forward import FeedForward
from eigenformer.models.gated_gcn import GatedGCNLayer
from eigenformer.models.message_passing import gine
from eigenformer.models.peer import Inputs, Peer


class GPS(Peer):
    """The graph transformer of `"Recipe for a General, Powerful, Scalable Graph Transformer"
    <https://arxiv.org/abs/2205.12454>`_.

    With GINE, a layer computes what PyG's ``GPSConv`` computes. It differs in two ways: attention
    works on graphs of the same size together, instead of padding all to the largest, and the states
    of edges that GatedGCN returns go on to the next layer, as in the authors' networks.

    Args:
        config: The architecture.
    """

    config: GPSConfig

    def __init__(self, config: GPSConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(GPSLayer(config) for _ in range(config.layers))

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        blocks = Blocks.of(inputs.sizes, inputs.edge_index)
        x, edges = inputs.x[blocks.order], inputs.edges
        edge_index = blocks.inverse[inputs.edge_index]
        if edges is None:
            edges = x.new_zeros(edge_index.size(1), x.size(1))
        for layer in self.layers:
            x, edges = layer(x, edge_index, edges, blocks)
        return x[blocks.inverse]


class GPSLayer(nn.Module):
    r"""One layer of GPS.

    .. math::
        x^M &= \mathrm{BN}(x + \mathrm{MPNN}(x, e)) \\
        x^T &= \mathrm{BN}(x + \mathrm{Attention}(x)) \\
        x' &= \mathrm{BN}(x^M + x^T + \mathrm{FFN}(x^M + x^T))

    GatedGCN has the residual connection and the dropout inside, and another norm.

    Args:
        config: The architecture.
    """

    def __init__(self, config: GPSConfig) -> None:
        super().__init__()
        d = config.hidden_dim
        self.gated = config.local == "gatedgcn"
        self.local = GatedGCNLayer(d, config.dropout) if self.gated else gine(d)
        self.attention = BlockAttention(d, config.heads, config.attention_dropout)
        self.local_norm = nn.BatchNorm1d(d)
        self.attention_norm = nn.BatchNorm1d(d)
        self.out_norm = nn.BatchNorm1d(d)
        self.feed_forward = FeedForward(d, 2 * d, config.dropout)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, edge_index: Tensor, edges: Tensor, blocks: Blocks
    ) -> tuple[Tensor, Tensor]:
        """Computes the next nodes ``[Σn, d]`` and edges ``[M, d]``."""
        if self.gated:
            local, edges = self.local(x, edge_index, edges)
        else:
            local = x + self.dropout(self.local(x, edge_index, edges))
        attended = self.attention_norm(x + self.dropout(self.attention(x, blocks)))
        both = self.local_norm(local) + attended
        return self.out_norm(both + self.feed_forward(both)), edges
