"""One layer of the Eigenformer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.attention import SpectrumAwareAttention
from eigenformer.batch_norm import check_batch_norm
from eigenformer.drop_path import DropPath
from eigenformer.edges import Edges
from eigenformer.feed_forward import FeedForward
from eigenformer.kernels import AttentionKernel, PhiTable, make_kernel
from eigenformer.parts import (
    Part,
    describe,
    make_feed_forward,
    make_local_branch,
    make_norm,
    takes_graphs,
)
from eigenformer.ragged import RaggedGraphs
from eigenformer.spectral_filters import SpectralFilters


class DegreeScaler(nn.Module):
    r"""Scales nodes by their degree, which attention alone does not see.

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
        """Resets to the identity: θ₁ = 1, θ₂ = 0."""
        nn.init.ones_(self.theta1)
        nn.init.zeros_(self.theta2)

    def forward(self, x: Tensor, degrees: Tensor) -> Tensor:
        return x * self.scale(degrees)

    def scale(self, degrees: Tensor) -> Tensor:
        """Returns θ₁ + log(1 + d_i) θ₂, ``[Σn, d]``."""
        log_degrees = degrees.to(self.theta1.dtype).log1p()[:, None]
        return torch.addcmul(self.theta1, log_degrees, self.theta2)


class EigenformerLayer(nn.Module):
    r"""One transformer layer: spectrum-aware attention, degree scaling, feed-forward network.

    .. math::
        \hat{x} &= \mathrm{SAA}(x, e) \\
        \tilde{x}_i &= \hat{x}_i \odot \theta_1 + \log(1 + d_i) \, \hat{x}_i \odot \theta_2 \\
        x' &= \mathrm{BN}(x + \tilde{x}) \\
        x^{out} &= \mathrm{BN}(x' + \mathrm{FFN}(x'))

    With a local branch and spectral filters,
    :math:`x' = \mathrm{BN}(x + \tilde{x} + \ell(x) + f(x))`; see :class:`LocalBranch` and
    :class:`SpectralFilters`. The norms, the feed-forward network and the local branch are
    exchangeable parts. Each is given by name (see ``options.py``) or as a function that makes the
    part (see :mod:`eigenformer.parts`).

    Args:
        channels: d, the width of nodes and edges.
        ffn_width: Hidden width of the feed-forward network (default: d).
        degree_scaler: Whether the layer has its own degree scaler.
        norm_affine: Whether the batch norms have a learned scale and shift.
        dropout: Dropout after the attention, and inside and after the feed-forward network.
        attention_dropout: Dropout on the attention weights.
        drop_path: Probability that a graph leaves out a branch in training, drawn once for the
            attention with its local branch and once for the feed-forward network.
        norm: BN, the norm.
        last_norm: Whether there is a norm after the feed-forward network.
        feed_forward: FFN, the feed-forward network.
        local_branch: ℓ, messages along edges (default: no local branch).
        filters: Number of filters of f, learned filters of the spectrum (default: no filters).
        filter_width: Hidden width of the φ of each filter.
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
        drop_path: float = 0.0,
        norm: Part = "batch_norm",
        last_norm: bool = True,
        feed_forward: Part = "mlp",
        local_branch: Part | None = None,
        filters: int = 0,
        filter_width: int = 12,
        edge_features: bool = False,
        **attention: Any,
    ) -> None:
        super().__init__()
        width = channels if ffn_width is None else ffn_width
        self.attention = SpectrumAwareAttention(
            channels, dropout=attention_dropout, edge_features=edge_features, **attention
        )
        self.local = (
            None
            if local_branch is None
            else make_local_branch(local_branch, channels, edge_features, dropout)
        )
        self.filters = (
            SpectralFilters(channels, filters, filter_width, dropout=dropout) if filters else None
        )
        self.degree_scaler = DegreeScaler(channels) if degree_scaler else None
        self.norm1 = make_norm(norm, channels, norm_affine)
        self.norm2 = make_norm(norm, channels, norm_affine) if last_norm else None
        self.ffn = make_feed_forward(feed_forward, channels, width, dropout)
        self.dropout = nn.Dropout(dropout)
        self.drop_path = DropPath(drop_path)
        self._norms_take_graphs = takes_graphs(self.norm1)
        # Another network may keep its output for the backward pass, so it must not be changed.
        self._adds_in_place = isinstance(self.ffn, FeedForward)

    def reset_parameters(self) -> None:
        """Initialises all weights anew."""
        self.attention.reset_parameters()
        parts = self.local, self.filters, self.degree_scaler, *self.norms, self.ffn
        for part in parts:
            for module in () if part is None else _resettable(part):
                module.reset_parameters()

    @property
    def norms(self) -> tuple[nn.Module, ...]:
        """The norm after the attention and, if there is one, after the feed-forward network."""
        return (self.norm1,) if self.norm2 is None else (self.norm1, self.norm2)

    def described(self) -> dict[str, tuple[str, ...]]:
        """Returns the exchangeable parts in words, line by line; empty for a missing part."""
        parts = {
            "norm": self.norm1,
            "feed_forward": self.ffn,
            "local_branch": self.local,
            "filters": self.filters,
        }
        return {name: () if part is None else describe(part) for name, part in parts.items()}

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Returns the parameters of each part. The list of a missing part is empty."""
        parts = self.attention.parts()
        for part, modules in (
            ("local branch", (self.local,)),
            ("filters", (self.filters,)),
            ("θ", (self.degree_scaler,)),
            ("feed-forward", (*self.norms, self.ffn)),
        ):
            parts[part] = [p for m in modules if m is not None for p in m.parameters()]
        return parts

    def forward(
        self,
        x: Tensor,
        kernel: AttentionKernel | Data,
        edge_attr: Tensor | Edges | None = None,
        degree_scale: Tensor | None = None,
        return_attention: bool = False,
        table: PhiTable | None = None,
        importance: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Updates the nodes.

        Takes the same arguments as :class:`SpectrumAwareAttention`. A layer without its own degree
        scaler takes ``degree_scale`` from a :class:`DegreeScaler` that several layers share.
        ``importance`` is that of the filters, if ``kernel.importances`` evaluated several layers
        together.
        """
        if isinstance(kernel, Data):
            graphs = RaggedGraphs.from_data(kernel, x.dtype)
            kernel = make_kernel(graphs, self.attention.backend, self.attention.request())
        check_batch_norm(self, x.size(0))
        if isinstance(edge_attr, Tensor):
            edge_attr = Edges.of(edge_attr, kernel.graphs)
        attended = self.attention(x, kernel, edge_attr, return_attention, table)
        attended, attention = attended if return_attention else (attended, None)
        if degree_scale is None and self.degree_scaler is not None:
            degree_scale = self.degree_scaler.scale(kernel.graphs.degrees)
        attended = self.dropout(attended)
        keep = self.drop_path(x, kernel.graphs)
        if keep is not None:
            degree_scale = keep if degree_scale is None else degree_scale * keep
        residual = x
        if self.local is not None:
            residual = _add(x, self.local(x, kernel, edge_attr), keep)
        if self.filters is not None:
            residual = _add(residual, self.filters(x, kernel, importance), keep)
        # Use as few passes and tensors as possible: they make up the memory of a training step.
        x = _add(residual, attended, degree_scale)
        x = self._normalize(self.norm1, x, kernel.graphs)
        keep = self.drop_path(x, kernel.graphs)
        if keep is None and self._adds_in_place:
            x = self.ffn(x).add_(x)
        else:
            x = _add(x, self.ffn(x), keep)
        if self.norm2 is not None:
            x = self._normalize(self.norm2, x, kernel.graphs)
        return x if attention is None else (x, attention)

    def _normalize(self, norm: nn.Module, x: Tensor, graphs: RaggedGraphs) -> Tensor:
        if self._norms_take_graphs:
            return norm(x, batch=graphs.node_graph, batch_size=graphs.num_graphs)
        return norm(x)


def _add(x: Tensor, branch: Tensor, scale: Tensor | None) -> Tensor:
    """Returns x plus the branch, which is scaled if there is a scale."""
    return x + branch if scale is None else torch.addcmul(x, branch, scale)


def _resettable(part: nn.Module) -> list[Any]:
    """Returns the part if it can draw new weights, and otherwise its descendants that can."""
    if hasattr(part, "reset_parameters"):
        return [part]
    return [module for child in part.children() for module in _resettable(child)]
