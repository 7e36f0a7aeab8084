"""One layer of the Eigenformer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.batch_norm import BatchNorm, check_batch_norm
from eigenformer.edges import EncodedEdges
from eigenformer.feed_forward import FeedForward
from eigenformer.kernels import AttentionKernel, PhiTable, make_kernel
from eigenformer.local_branch import LocalBranch
from eigenformer.ragged import RaggedGraphs


class DegreeScaler(nn.Module):
    r"""Lets a node know its degree, which attention alone cannot.

    .. math::
        \tilde{x}_i = \hat{x}_i \odot \theta_1 + \log(1 + d_i) \, \hat{x}_i \odot \theta_2

    Args:
        channels: Width of the nodes.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.theta1 = nn.Parameter(torch.empty(channels))
        self.theta2 = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts as the identity: θ₁ = 1, θ₂ = 0."""
        nn.init.ones_(self.theta1)
        nn.init.zeros_(self.theta2)

    def forward(self, x: Tensor, degrees: Tensor) -> Tensor:
        return x * self.scale(degrees)

    def scale(self, degrees: Tensor) -> Tensor:
        """θ₁ + log(1 + d_i) θ₂, ``[Σn, d]``."""
        log_degrees = degrees.to(self.theta1.dtype).log1p()[:, None]
        return torch.addcmul(self.theta1, log_degrees, self.theta2)


class EigenformerLayer(nn.Module):
    r"""One transformer layer: spectrum-aware attention, degree scaling, feed-forward network.

    .. math::
        \hat{x} &= \mathrm{SAA}(x, e) \\
        \tilde{x}_i &= \hat{x}_i \odot \theta_1 + \log(1 + d_i) \, \hat{x}_i \odot \theta_2 \\
        x' &= \mathrm{BN}(x + \tilde{x}) \\
        x^{out} &= \mathrm{BN}(x' + \mathrm{FFN}(x'))

    With a local branch, :math:`x' = \mathrm{BN}(x + \tilde{x} + \ell(x))`, see
    :class:`LocalBranch`.

    Args:
        channels: d, the width of nodes and edges.
        ffn_width: Hidden width of the feed-forward network (default: d).
        degree_scaler: Whether the layer has a degree scaler of its own.
        norm_affine: Whether its batch norms scale and shift.
        dropout: Dropout after the attention and inside and after the feed-forward network.
        attention_dropout: Dropout on the attention weights.
        local_branch: Whether messages along edges are added to the attended values.
        edge_features: Whether edges carry features.
        attention: Further arguments of :class:`SpectrumAwareAttention`.
    """

    def __init__(
        self,
        channels: int,
        ffn_width: int | None = None,
        degree_scaler: bool = True,
        norm_affine: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        local_branch: bool = False,
        edge_features: bool = False,
        **attention: Any,
    ) -> None:
        super().__init__()
        width = channels if ffn_width is None else ffn_width
        self.attention = SpectrumAwareAttention(
            channels, dropout=attention_dropout, edge_features=edge_features, **attention
        )
        self.local = LocalBranch(channels, edge_features, dropout) if local_branch else None
        self.degree_scaler = DegreeScaler(channels) if degree_scaler else None
        self.norm1 = BatchNorm(channels, affine=norm_affine)
        self.norm2 = BatchNorm(channels, affine=norm_affine)
        self.ffn = FeedForward(channels, width, dropout)
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Starts again from new random weights."""
        self.attention.reset_parameters()
        for module in (self.local, self.degree_scaler, self.norm1, self.norm2, *self.ffn):
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        graphs: AttentionKernel | Data,
        edge_attr: Tensor | EncodedEdges | None = None,
        degree_scale: Tensor | None = None,
        return_attention: bool = False,
        table: PhiTable | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Updates the nodes.

        Takes what :class:`SpectrumAwareAttention` takes. ``degree_scale`` is that of a
        :class:`DegreeScaler` which several layers share, for a layer that has none of its own.
        """
        if isinstance(graphs, Data):
            structure = RaggedGraphs.from_data(graphs, x.dtype)
            graphs = make_kernel(structure, self.attention.backend)
        check_batch_norm(self, x.size(0))
        attended = self.attention(x, graphs, edge_attr, return_attention, table)
        attended, attention = attended if return_attention else (attended, None)
        if degree_scale is None and self.degree_scaler is not None:
            degree_scale = self.degree_scaler.scale(graphs.graphs.degrees)
        attended = self.dropout(attended)
        residual = x
        if self.local is not None:
            edges = EncodedEdges(edge_attr) if isinstance(edge_attr, Tensor) else edge_attr
            residual = x + self.local(x, graphs.graphs, edges)
        # As few passes, and as few tensors, as there are: a step's memory is made of these.
        if degree_scale is None:
            x = self.norm1(residual + attended)
        else:
            x = self.norm1(torch.addcmul(residual, attended, degree_scale))
        x = self.norm2(self.ffn(x).add_(x))
        return x if attention is None else (x, attention)
