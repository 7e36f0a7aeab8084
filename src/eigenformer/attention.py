"""Spectrum-aware attention, with optional feature attention."""

from __future__ import annotations

import math
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.edges import Edges
from eigenformer.kernels import (
    AttentionKernel,
    AttentionTerms,
    Backend,
    EdgeTerms,
    PhiTable,
    Request,
    make_kernel,
)
from eigenformer.kernels.base import ScalarFunction, signed_sqrt
from eigenformer.nearest import unknown
from eigenformer.options import Psi
from eigenformer.ragged import RaggedGraphs
from eigenformer.scalar_mlp import ScalarMLP

# W_A, W_R and its bias.
_EDGE_LOGITS = ("edge_hidden", "edge_logit_weight", "edge_logit_bias")


class SpectrumAwareAttention(nn.Module):
    r"""The attention of `"Graph Transformers without Positional Encodings"
    <https://arxiv.org/abs/2401.17791>`_, made from the graph's Laplacian spectrum.

    .. math::
        \alpha^h_{spec}[i,j] &= \phi_1^h\Bigl(\sum_k u_k[i] u_k[j] \phi_2^h(\lambda_k)\Bigr) \\
        \alpha^h_{feat}[i,j] &= \psi\Bigl(\frac{(W_Q^h x_i)^\top (W_K^h x_j)}{\sqrt{d/H}}\Bigr)
        + W_R^h \, \rho(W_A^h e_{ij}) \\
        \alpha^h &= \mathrm{softmax}_j(\alpha^h_{spec} + \alpha^h_{feat}) \\
        \hat{x}_i &= W_O \, \Vert_h \sum_j \alpha^h[i,j] \, (W_V^h x_j + W_E^h e_{ij})

    where :math:`j` runs over all nodes in the graph of :math:`i`, and :math:`e_{ij}` belongs to the
    edge :math:`j \to i`, the column :math:`(j, i)` of PyG's ``edge_index``.

    Args:
        channels: d, the width of nodes and edges.
        heads: H, the number of heads. Must divide ``channels``.
        phi_width: p, the hidden width of :math:`\phi_1` and :math:`\phi_2`.
        phi_depth: The number of hidden layers of :math:`\phi_1` and :math:`\phi_2`.
        phi_gain: The scale of their initial weights, relative to a ``torch.nn.Linear``.
        feature_attention: Whether :math:`\alpha_{feat}` is used.
        edge_features: Whether edges carry features.
        psi: :math:`\psi`, ``"signed_sqrt"`` or ``"identity"``.
        dropout: Probability of dropping an attention weight after the softmax.
        backend: How attention is computed if the input is a plain PyG batch.
    """

    def __init__(
        self,
        channels: int,
        heads: int = 8,
        phi_width: int = 28,
        phi_depth: int = 2,
        phi_gain: float = 1.0,
        feature_attention: bool = False,
        edge_features: bool = False,
        psi: Psi = "signed_sqrt",
        dropout: float = 0.0,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if heads < 1 or channels % heads:
            raise ValueError(f"heads must divide channels, got {heads} and {channels}")
        for name, value, choices in (("psi", psi, Psi), ("backend", backend, Backend)):
            if value not in get_args(choices):
                raise ValueError(unknown(f"{name}: '{value}'", value, get_args(choices)))
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: must be in [0, 1), got {dropout}")
        self.channels, self.heads = channels, heads
        self.feature_attention, self.edge_features = feature_attention, edge_features
        self.psi = psi
        self.dropout = dropout
        self.backend: Backend = backend
        self.phi1 = ScalarMLP(heads, phi_width, phi_depth, phi_gain)
        self.phi2 = ScalarMLP(heads, phi_width, phi_depth, phi_gain)
        self.value = nn.Linear(channels, channels)  # W_V
        self.out = nn.Linear(channels, channels)  # W_O
        if edge_features:
            self.edge_value = nn.Linear(channels, channels)  # W_E
        if feature_attention:
            self.query = nn.Linear(channels, channels)  # W_Q
            self.key = nn.Linear(channels, channels)  # W_K
        if feature_attention and edge_features:
            self.edge_hidden = nn.Linear(channels, channels)  # W_A
            self.edge_logit_weight = nn.Parameter(torch.empty(heads, channels // heads))  # W_R
            # Unused, but part of the paper's model and its parameter count. It is equal for all
            # pairs, so it cancels in the softmax and has no gradient.
            self.edge_logit_bias = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial weights: as in ``torch.nn.Linear``, and with a gain for φ₁ and φ₂."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]
        if self.feature_attention and self.edge_features:
            bound = 1 / math.sqrt(self.channels // self.heads)
            nn.init.uniform_(self.edge_logit_weight, -bound, bound)
            nn.init.uniform_(self.edge_logit_bias, -bound, bound)

    def forward(
        self,
        x: Tensor,
        graphs: AttentionKernel | Data,
        edge_attr: Tensor | Edges | None = None,
        return_attention: bool = False,
        table: PhiTable | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        r"""Attends over each graph.

        Args:
            x: Node features ``[Σn, d]``.
            graphs: The batch with its spectrum; or its kernel, from
                :func:`eigenformer.kernels.make_kernel`, if several layers share it.
            edge_attr: Encoded edge features ``[M, d]``, one row per column of ``edge_index``. Pairs
                without an edge then have zeros; for other cases see :class:`Edges`.
            return_attention: Whether to also return the attention of each graph,
                ``[heads, n, n]``.
            table: The φ table of this layer, if ``graphs.tables`` evaluated several layers
                together.
        """
        if isinstance(graphs, Data):
            graphs = make_kernel(
                RaggedGraphs.from_data(graphs, x.dtype), self.backend, self.request()
            )
        if x.shape != (graphs.graphs.num_nodes, self.channels):
            raise ValueError(
                f"x: shape {tuple(x.shape)}, expected one row of {self.channels} for each of "
                f"{graphs.graphs.num_nodes} nodes"
            )
        if (edge_attr is not None) != self.edge_features:
            raise ValueError(
                f"edge_attr is {'given' if edge_attr is not None else 'missing'}, but the layer "
                f"was made with edge_features={self.edge_features}"
            )
        bias: Tensor = self.value.bias
        edges = EdgeTerms()
        if edge_attr is not None:
            given = Edges.of(edge_attr, graphs.graphs)
            logits = (self.edge_hidden, self.edge_logit_weight) if self.feature_attention else ()
            everywhere, edges = given.terms(self.edge_value, self.heads, *logits)
            bias = bias + everywhere
        terms = AttentionTerms(
            phi1=self.phi1,
            phi2=self.phi2,
            values=self._split(F.linear(x, self.value.weight, bias)),
            queries=self._split(self.query(x)) if self.feature_attention else None,
            keys=self._split(self.key(x)) if self.feature_attention else None,
            psi=self._psi(),
            edges=edges,
            table=table,
        )
        dropout = self.dropout if self.training else 0.0
        # Under autocast, logits stay in full precision: φ₁ and ψ are steep where they matter.
        with torch.autocast(x.device.type, enabled=False):
            terms = terms.to(graphs.graphs.eigenvectors.dtype)
            attended, attention = graphs.attend(terms, dropout, return_attention=return_attention)
        out = self.out(attended.flatten(1))
        return out if attention is None else (out, attention)

    def request(self) -> Request:
        """Returns what a kernel must support to compute this attention, in its current mode."""
        return Request(
            features=self.feature_attention,
            psi=self._psi() if self.feature_attention else None,
            edges=self.edge_features,
            dropout=self.training and self.dropout > 0,
            channels=self.channels // self.heads,
        )

    def _psi(self) -> ScalarFunction | None:
        return signed_sqrt if self.psi == "signed_sqrt" else None

    def _split(self, x: Tensor) -> Tensor:
        return x.view(-1, self.heads, self.channels // self.heads)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Returns the parameters of each part."""
        names = {
            "φ₁": ("phi1",),
            "φ₂": ("phi2",),
            "W_V, W_O, W_E": ("value", "out", "edge_value"),
            "W_Q, W_K, W_A, W_R": ("query", "key", *_EDGE_LOGITS),
        }
        own = [(name.split(".")[0], p) for name, p in self.named_parameters()]
        return {part: [p for name, p in own if name in of] for part, of in names.items()}

    def extra_repr(self) -> str:
        return (
            f"{self.channels}, heads={self.heads}, feature_attention={self.feature_attention}, "
            f"edge_features={self.edge_features}, dropout={self.dropout}"
        )
