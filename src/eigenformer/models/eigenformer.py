"""The Eigenformer: predictions from graphs with their spectra."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, overload

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from typing_extensions import Self

from eigenformer.batch_norm import check_batch_norm
from eigenformer.config import EigenformerConfig, load_preset
from eigenformer.drop_path import growing_rates
from eigenformer.edges import Edges
from eigenformer.encoders import build_encoder
from eigenformer.kernels import AttentionKernel, Backend, Request, make_kernel
from eigenformer.layer import DegreeScaler, EigenformerLayer
from eigenformer.models.base import Embedding, Model, Parts
from eigenformer.node_potentials import NodePotentials
from eigenformer.parts import Part, describe, make_head
from eigenformer.ragged import Checked, RaggedGraphs


class Eigenformer(Model):
    r"""The graph transformer of `"Graph Transformers without Positional Encodings"
    <https://arxiv.org/abs/2401.17791>`_.

    Consists of encoders, ``config.layers`` times :class:`EigenformerLayer`, a pool and a head.
    Takes a PyG ``Data`` or ``Batch`` whose graphs have a spectrum, see
    :class:`LaplacianSpectrum`.

    Args:
        config: The architecture.
        backend: How attention is computed. This attribute can be changed at any time and is not
            saved with the model.
        norm: Norm of the layers, instead of that in the settings: a name, or a function that
            builds it.
        feed_forward: Feed-forward network of the layers, given in the same way.
        local_branch: Local branch of the layers, given in the same way.
        head: Function that builds the head from the width and the number of outputs.
    """

    config: EigenformerConfig

    def __init__(
        self,
        config: EigenformerConfig,
        backend: Backend = "auto",
        *,
        norm: Part | None = None,
        feed_forward: Part | None = None,
        local_branch: Part | None = None,
        head: Callable[[int, int], nn.Module] | None = None,
    ) -> None:
        if not isinstance(config, EigenformerConfig):
            raise TypeError(f"expected an EigenformerConfig, got a {type(config).__name__}")
        super().__init__(config)
        self.backend = backend
        given = {
            "norm": norm,
            "feed_forward": feed_forward,
            "local_branch": local_branch,
            "head": head,
        }
        self.injected = tuple(name for name, part in given.items() if part is not None)
        d = config.hidden_dim
        self.node_encoder = build_encoder(config.node_encoder, d)
        self.edge_encoder = (
            None if config.edge_encoder is None else build_encoder(config.edge_encoder, d)
        )
        self.node_potentials = (
            NodePotentials(d, config.node_potentials, config.potential_width)
            if config.node_potentials
            else None
        )
        self.input_norm = nn.BatchNorm1d(d) if config.input_norm else None
        self.degree_scaler = DegreeScaler(d) if config.degree_scaler == "shared" else None
        self.layers = nn.ModuleList(
            EigenformerLayer(
                channels=d,
                ffn_width=config.ffn_width,
                degree_scaler=config.degree_scaler == "per_layer",
                norm_affine=config.norm_affine,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                drop_path=rate,
                heads=config.heads,
                phi_width=config.phi_width,
                phi_depth=config.phi_depth,
                phi_gain=config.phi_gain,
                feature_attention=config.feature_attention,
                norm=norm or config.norm,
                last_norm=config.last_norm or layer < config.layers - 1,
                feed_forward=feed_forward or config.feed_forward,
                local_branch=local_branch or config.local_branch,
                filters=config.filters,
                filter_width=config.filter_width,
                edge_features=config.edge_encoder is not None,
                psi=config.psi,
            )
            for layer, rate in enumerate(growing_rates(config.drop_path, config.layers))
        )
        if config.norm_shared:
            first, *others = (cast(EigenformerLayer, layer).norms for layer in self.layers)
            for norms in others:  # the last layer may have one
                for norm, shared in zip(norms, first, strict=False):
                    for name, parameter in shared.named_parameters():
                        owner, _, own = name.rpartition(".")
                        setattr(norm.get_submodule(owner), own, parameter)
        self.head = (
            make_head(self.head_width, config.out_channels, config.head_layers)
            if head is None
            else head(self.head_width, config.out_channels)
        )

    @classmethod
    def from_preset(cls, name: str, backend: Backend = "auto", **changes: Any) -> Self:
        """Builds the model of a preset, with new weights; ``changes`` override its settings."""
        config = load_preset(name).model.replace(**changes)
        if not isinstance(config, EigenformerConfig):
            raise ValueError(
                f"preset '{name}': not an Eigenformer but a {config.title}; use "
                f"build_model(load_preset('{name}').model)"
            )
        return cls(config, backend)

    def described(self) -> dict[str, tuple[str, ...]]:
        """Returns the exchangeable parts in words, line by line; empty for a missing part."""
        first = cast(EigenformerLayer, self.layers[0])  # all layers are alike
        return {**first.described(), "head": describe(self.head)}

    def parts(self) -> Parts:
        """Returns all trainable parameters by their purpose, each once."""
        names = (
            "node_encoder",
            "edge_encoder",
            "input_norm",
            "node_potentials",
            "head",
            "descriptor_encoder",
        )
        modules = {name: getattr(self, name) for name in (*names, "degree_scaler")}
        own = {name: [*m.parameters()] if m is not None else [] for name, m in modules.items()}
        layers: Parts = {}
        for layer in self.layers:
            for part, parameters in cast(EigenformerLayer, layer).parts().items():
                layers.setdefault(part, []).extend(parameters)
        layers["θ"] = [*own["degree_scaler"], *layers["θ"]]
        return self.completed(
            {
                "encoders": [*own["node_encoder"], *own["edge_encoder"], *own["input_norm"]],
                "descriptors": own["descriptor_encoder"],
                "node potentials": own["node_potentials"],
                **layers,
                "head": own["head"],
            }
        )

    def save(self, folder: str | Path) -> None:
        """Writes ``model.safetensors`` and ``model.json``: weights and architecture."""
        if self.injected:
            raise ValueError(
                f"{', '.join(self.injected)}: given as code, which cannot be saved; "
                f"give each part a name in options.py to save the model"
            )
        super().save(folder)

    @overload
    def forward(self, batch: Data, return_attention: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(
        self, batch: Data, return_attention: Literal[True]
    ) -> tuple[Tensor, list[list[Tensor]]]: ...

    def forward(
        self, batch: Data, return_attention: bool = False
    ) -> Tensor | tuple[Tensor, list[list[Tensor]]]:
        """Predicts for every graph ``[B, out]``, or for every node ``[Σn, out]``.

        Args:
            batch: The graphs, with their spectra.
            return_attention: Whether to also return the attention as ``attention[layer][graph]``,
                each ``[heads, n, n]``.
        """
        x, edge_attr, kernel = self._inputs(batch)
        if not return_attention:
            return self.predict(x, edge_attr, kernel, batch)
        attention: list[list[Tensor]] = []
        return self.predict(x, edge_attr, kernel, batch, attention), attention

    def predict(
        self,
        x: Tensor,
        edge_attr: Tensor | None,
        kernel: AttentionKernel,
        batch: Data | None = None,
        attention: list[list[Tensor]] | None = None,
    ) -> Tensor:
        """Predicts from raw features and a kernel, without checking them.

        The batch is only needed for descriptors beside the graph. If ``attention`` is given, the
        attention of each layer is appended to it.
        """
        return self.decode(self._represent(x, edge_attr, kernel, attention), batch)

    def embed(self, batch: Data) -> Embedding:
        """Returns the representations of graphs and nodes before the head."""
        return self._represent(*self._inputs(batch))

    def check(self, batch: Data) -> Data:
        result = copy.copy(batch)
        found = Checked.of(batch)
        self.features(batch, found.node_graph)
        result.checked = replace(found, features=True)
        return result

    @torch.compiler.disable
    def _inputs(self, batch: Data) -> tuple[Tensor, Tensor | None, AttentionKernel]:
        """Returns what does not depend on the weights: the checked features and the kernel."""
        graphs = RaggedGraphs.from_data(batch, self.dtype)
        x, edge_attr = self.features(batch, graphs.node_graph)
        check_batch_norm(self, graphs.num_nodes)
        return x, edge_attr, make_kernel(graphs, self.backend, self.request())

    def request(self) -> Request:
        """Returns what a kernel must support to compute the attention of the layers."""
        first: Any = self.layers[0]  # all layers are alike
        return first.attention.request()

    def _represent(
        self,
        x: Tensor,
        edge_attr: Tensor | None,
        kernel: AttentionKernel,
        attention: list[list[Tensor]] | None = None,
    ) -> Embedding:
        x = self.node_encoder(x)
        edges = None
        if self.edge_encoder is not None and edge_attr is not None:
            edges = Edges.encode(self.edge_encoder, edge_attr, kernel.graphs)
        if self.node_potentials is not None:
            x = self.node_potentials(x, kernel)
        if self.input_norm is not None:
            x = self.input_norm(x)
        scaler = self.degree_scaler
        scale = None if scaler is None else scaler.scale(kernel.graphs.degrees)
        layers: list[Any] = [*self.layers]
        attentions = [layer.attention for layer in layers]
        filters: list[Any] = [None] * len(layers)
        with torch.autocast(x.device.type, enabled=False):  # as for the attention itself
            tables = kernel.tables([(a.phi1, a.phi2) for a in attentions])
            if self.config.filters:
                phis = [layer.filters.phi for layer in layers]
                filters = kernel.importances(phis, self.config.filters)
        for layer, table, importance in zip(layers, tables, filters, strict=True):
            x = layer(x, kernel, edges, scale, attention is not None, table, importance)
            if attention is not None:
                x, weights = x
                attention.append(weights)
        graphs = kernel.graphs
        return Embedding(self.pool(x, graphs.node_graph, graphs.num_graphs), x)
