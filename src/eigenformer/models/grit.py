"""GRIT: attention from states of pairs of nodes, which start as random-walk probabilities."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eigenformer.blocks import Blocks, join_nodes, walk_probabilities
from eigenformer.config import GritConfig
from eigenformer.feed_forward import FeedForward
from eigenformer.layer import DegreeScaler
from eigenformer.models.peer import Inputs, Peer

# Attention scores are clamped to ± this, as in the authors' networks.
_CLAMP = 5.0
# The signed square root is x / √(|x| + ε), which has a finite slope at 0.
_EPSILON = 1e-6


class Grit(Peer):
    r"""The graph transformer of `"Graph Inductive Biases in Transformers without Message Passing"
    <https://arxiv.org/abs/2305.17589>`_.

    The states of nodes and of pairs of nodes start from relative random-walk probabilities:

    .. math::
        x_i^0 = \mathrm{enc}(x_i) + W_1 R_{ii}, \qquad
        e_{ij}^0 = \mathrm{enc}(e_{ij}) + W_2 R_{ij}, \qquad
        R = [ I, P, P^2, \dots, P^{K-1} ]

    Walks go along edges in both directions. Pairs are kept without padding, see :class:`Blocks`.

    Args:
        config: The architecture.
    """

    config: GritConfig

    def __init__(self, config: GritConfig) -> None:
        super().__init__(config)
        d = config.hidden_dim
        self.node_walks = nn.Linear(config.steps, d, bias=False)  # W_1
        self.pair_walks = nn.Linear(config.steps, d, bias=False)  # W_2
        for linear in (self.node_walks, self.pair_walks):
            nn.init.xavier_uniform_(linear.weight)
        self.layers = nn.ModuleList(GritLayer(config) for _ in range(config.layers))

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        blocks = Blocks.of(inputs.sizes, inputs.edge_index)
        with torch.no_grad():
            adjacency = blocks.adjacency(inputs.x.dtype)
            walks = walk_probabilities(adjacency, self.config.steps)
            loops = join_nodes(w.diagonal(0, 1, 2).mT for w in blocks.pairs(walks))
            degrees = join_nodes(a.sum(2) for a in adjacency)
        x = inputs.x[blocks.order] + self.node_walks(loops)
        pairs = self.pair_walks(walks)
        if inputs.edges is not None:
            pairs = pairs.index_add(0, blocks.edge_pair, inputs.edges)
        for number, layer in enumerate(self.layers, 1):
            x, pairs = layer(x, pairs, degrees, blocks, last=number == len(self.layers))
        return x[blocks.inverse]


class GritLayer(nn.Module):
    r"""One layer of GRIT.

    .. math::
        \hat{e}_{ij} &= \mathrm{ReLU} \bigl( \psi( (W_Q x_i + W_K x_j) \odot W_{Ew} e_{ij} )
        + W_{Eb} e_{ij} \bigr) \\
        \alpha_{ij} &= \mathrm{softmax}_j ( w_A \cdot \hat{e}_{ij} ) \\
        \hat{x}_i &= \sum_j \alpha_{ij} ( W_V x_j + W_{Ev} \hat{e}_{ij} ) \\
        \tilde{x}_i &= \hat{x}_i \odot \theta_1 + \log(1 + d_i) \, \hat{x}_i \odot \theta_2 \\
        x_i' &= \mathrm{BN}(x_i + W_O \tilde{x}_i), \quad
        e_{ij}' = \mathrm{BN}(e_{ij} + W_{Oe} \hat{e}_{ij}) \\
        x_i'' &= \mathrm{BN}(x_i' + \mathrm{FFN}(x_i'))

    per head, with the signed square root :math:`\psi`. :math:`W_{Ev}` acts on the sum over j, which
    is a state of a node.

    Args:
        config: The architecture.
    """

    def __init__(self, config: GritConfig) -> None:
        super().__init__()
        d, self.heads = config.hidden_dim, config.heads
        width = d // config.heads
        self.query = nn.Linear(d, d)  # W_Q
        self.key = nn.Linear(d, d, bias=False)  # W_K
        self.value = nn.Linear(d, d, bias=False)  # W_V
        self.pair = nn.Linear(d, 2 * d)  # W_Ew, W_Eb
        self.score = nn.Parameter(torch.empty(config.heads, width))  # w_A
        self.pair_value = nn.Parameter(torch.empty(config.heads, width, width))  # W_Ev
        self.node_out, self.pair_out = nn.Linear(d, d), nn.Linear(d, d)  # W_O, W_Oe
        self.degree_scaler = DegreeScaler(d)
        self.norm1, self.pair_norm, self.norm2 = (nn.BatchNorm1d(d) for _ in range(3))
        self.feed_forward = FeedForward(d, 2 * d, config.dropout)
        self.dropout, self.attention_dropout = nn.Dropout(config.dropout), config.attention_dropout
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights for the attention, as the authors do."""
        linear = (self.query, self.key, self.value, self.pair)
        for weight in (*(part.weight for part in linear), self.score, self.pair_value):
            nn.init.xavier_normal_(weight)

    def forward(
        self, x: Tensor, pairs: Tensor, degrees: Tensor, blocks: Blocks, last: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Computes the next nodes ``[Σn, d]`` and pairs ``[Σn², d]``.

        After the ``last`` layer nobody looks at the pairs, which are then returned unchanged.
        """
        attended, hidden = self._attend(x, pairs, blocks)
        attended = self.degree_scaler(self.dropout(attended), degrees)
        x = self.norm1(x + self.node_out(attended))
        if not last:
            pairs = self.pair_norm(pairs + self.pair_out(self.dropout(hidden)))
        return self.norm2(x + self.feed_forward(x)), pairs

    def _attend(self, x: Tensor, pairs: Tensor, blocks: Blocks) -> tuple[Tensor, Tensor]:
        """Returns x̂, ``[Σn, d]``, and ê, ``[Σn², d]``."""
        state = pair_states(self.query(x), self.key(x), self.pair(pairs), blocks)
        scores = F.linear(state, torch.block_diag(*self.score)).clamp(-_CLAMP, _CLAMP)
        of_nodes, of_pairs = [], []
        for value, pair, score in zip(
            blocks.nodes(self.value(x)), blocks.pairs(state), blocks.pairs(scores), strict=True
        ):
            weights = score.mT.softmax(-1)  # [B, n, heads, n]
            weights = F.dropout(weights, self.attention_dropout, self.training)
            values = value.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            of_nodes.append((weights.transpose(1, 2) @ values).transpose(1, 2))
            # All heads of the weights times all heads of the states: eight times too much, but in
            # one product, in which the states need not be moved.
            all_heads = (weights @ pair).unflatten(-1, (self.heads, -1))
            of_pairs.append(all_heads.diagonal(0, 2, 3).mT)
        from_pairs = torch.einsum("nhc,hcd->nhd", join_nodes(of_pairs), self.pair_value)
        return (join_nodes(of_nodes) + from_pairs).flatten(1), state


def pair_states(query: Tensor, key: Tensor, pair: Tensor, blocks: Blocks) -> Tensor:
    r"""Returns ê = ReLU(ψ((q_i + k_j) ⊙ w_ij) + b_ij), ``[Σn², d]``.

    Keeps nothing of this size for the backward pass but its input and its output.

    Args:
        query: q, ``[Σn, d]``.
        key: k, ``[Σn, d]``.
        pair: w and b side by side, ``[Σn², 2d]``.
        blocks: The graphs.
    """
    return _PairStates.apply(query, key, pair, blocks)


class _PairStates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, pair: Tensor, blocks: Blocks) -> Tensor:
        state = pair.new_empty(len(pair), query.size(1))
        each = zip(*_views(blocks, query, key, pair, state), strict=True)
        for q, k, both, out in each:
            factor, shift = both.chunk(2, -1)
            product = (q[:, :, None] + k[:, None]).mul_(factor)
            root = product.abs().add_(_EPSILON).rsqrt_().mul_(product)
            torch.relu_(torch.add(root, shift, out=out))
        ctx.save_for_backward(query, key, pair, state)
        ctx.blocks = blocks
        return state

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_state: Tensor) -> tuple[Tensor | None, ...]:
        query, key, pair, state = ctx.saved_tensors
        d_query, d_key, d_pair = map(torch.empty_like, (query, key, pair))
        views = _views(ctx.blocks, query, key, pair, state)
        gradients = _views(ctx.blocks, d_query, d_key, d_pair, d_state.contiguous())
        for q, k, both, out, d_q, d_k, d_both, d_out in zip(*views, *gradients, strict=True):
            (factor, _), (d_factor, d_shift) = both.chunk(2, -1), d_both.chunk(2, -1)
            torch.mul(d_out, out > 0, out=d_shift)
            total = q[:, :, None] + k[:, None]
            size = (total * factor).abs_()
            # d/dp p / √(|p| + ε) = (|p| / 2 + ε) / (|p| + ε)^{3/2}
            root = torch.add(size, _EPSILON).rsqrt_()
            slope = root.square().mul_(root).mul_(size.mul_(0.5).add_(_EPSILON))
            slope.mul_(d_shift)
            torch.mul(slope, total, out=d_factor)
            slope.mul_(factor)
            torch.sum(slope, 2, out=d_q)
            torch.sum(slope, 1, out=d_k)
        return d_query, d_key, d_pair, None


def _views(
    blocks: Blocks, query: Tensor, key: Tensor, pair: Tensor, state: Tensor
) -> tuple[list[Tensor], ...]:
    return blocks.nodes(query), blocks.nodes(key), blocks.pairs(pair), blocks.pairs(state)
