"""A plain transformer, which sees the graph in its encoding only."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from eigenformer.blocks import BlockAttention, Blocks
from eigenformer.config import TransformerConfig
from eigenformer.models.peer import Inputs, Peer


class Transformer(Peer):
    """The encoder of `"Attention Is All You Need" <https://arxiv.org/abs/1706.03762>`_ on nodes.

    Give it an encoding (``rwse`` or ``lappe``). Without one, it does not see edges at all.

    Args:
        config: The architecture.
    """

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, sees_edges=False)
        d = config.hidden_dim
        self.layers = nn.ModuleList(
            TransformerLayer(d, config.heads, 2 * d, config.dropout, config.attention_dropout)
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(d)

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        blocks = Blocks.of(inputs.sizes, inputs.edge_index)
        x = inputs.x[blocks.order]
        for layer in self.layers:
            x = layer(x, blocks)
        return self.norm(x)[blocks.inverse]


class TransformerLayer(nn.Module):
    r"""A transformer layer that normalises first.

    .. math::
        x' &= x + \mathrm{Attention}(\mathrm{LN}(x)) \\
        x'' &= x' + W_2 \, \mathrm{GELU}(W_1 \mathrm{LN}(x'))

    Args:
        channels: d, the width of the nodes.
        heads: Number of attention heads.
        width: Hidden width of the feed-forward network.
        dropout: Dropout on nodes.
        attention_dropout: Dropout on attention weights.
    """

    def __init__(
        self, channels: int, heads: int, width: int, dropout: float, attention_dropout: float
    ) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.attention = BlockAttention(channels, heads, attention_dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(channels, width), nn.GELU(), nn.Dropout(dropout), nn.Linear(width, channels)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        blocks: Blocks,
        bias: Sequence[Tensor] | None = None,
        factor: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Computes ``[Σn, d] → [Σn, d]``; see :class:`BlockAttention` for the rest."""
        x = x + self.dropout(self.attention(self.norm1(x), blocks, bias, factor))
        return x + self.dropout(self.feed_forward(self.norm2(x)))
