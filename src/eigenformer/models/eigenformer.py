"""The Eigenformer: a graph goes in, a prediction comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from eigenformer.batch_norm import check_batch_norm
from eigenformer.config import EigenformerConfig, load_preset
from eigenformer.edges import EncodedEdges
from eigenformer.encoders import FeatureEncoder, build_encoder
from eigenformer.kernels import AttentionKernel, Backend, make_kernel
from eigenformer.layer import DegreeScaler, EigenformerLayer
from eigenformer.models import build_model
from eigenformer.models.base import Model, build_head, last_linear  # noqa: F401 (training/loop.py)
from eigenformer.node_potentials import NodePotentials
from eigenformer.ragged import RaggedGraphs


class Embedding(NamedTuple):
    """Representations before the head: ``nodes`` ``[Σn, d]``, ``graphs`` ``[B, d]`` pooled from
    them, or None for a node task.
    """

    graphs: Tensor | None
    nodes: Tensor


class Eigenformer(Model):
    r"""The graph transformer of `"Graph Transformers without Positional Encodings"
    <https://arxiv.org/abs/2401.17791>`_.

    Encoders, ``config.layers`` times :class:`EigenformerLayer`, a pool and a head. Takes a
    PyG ``Data`` or ``Batch`` whose graphs carry a spectrum, see :class:`LaplacianSpectrum`.

    Args:
        config: The architecture.
        backend: How attention is computed. An attribute that may be changed at any time; it is
            not saved with the model.
    """

    config: EigenformerConfig

    def __init__(self, config: EigenformerConfig, backend: Backend = "auto") -> None:
        if not isinstance(config, EigenformerConfig):
            raise TypeError(f"expected an EigenformerConfig, got a {type(config).__name__}")
        super().__init__(config)
        self.backend = backend
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
                heads=config.heads,
                phi_width=config.phi_width,
                phi_depth=config.phi_depth,
                phi_gain=config.phi_gain,
                feature_attention=config.feature_attention,
                local_branch=config.local_branch,
                edge_features=config.edge_encoder is not None,
                psi=config.psi,
            )
            for _ in range(config.layers)
        )
        if config.norm_shared:
            for layer in self.layers[1:]:
                for norm in ("norm1", "norm2"):
                    first = getattr(self.layers[0], norm)
                    getattr(layer, norm).weight = first.weight
                    getattr(layer, norm).bias = first.bias
        self.head = build_head(d, config.out_channels, config.head_layers)

    @classmethod
    def from_preset(cls, name: str, backend: Backend = "auto", **changes: Any) -> Eigenformer:
        """One of the paper's models, with new weights; ``changes`` are other settings for it."""
        model = build_model(load_preset(name).model.replace(**changes), backend)
        assert isinstance(model, cls)
        return model

    @overload
    def forward(
        self,
        batch: Data,
        return_attention: Literal[False] = False,
        draw_seeds: Sequence[int] | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        batch: Data,
        return_attention: Literal[True],
        draw_seeds: Sequence[int] | None = None,
    ) -> tuple[Tensor, list[list[Tensor]]]: ...

    def forward(
        self,
        batch: Data,
        return_attention: bool = False,
        draw_seeds: Sequence[int] | None = None,
    ) -> Tensor | tuple[Tensor, list[list[Tensor]]]:
        """Predicts for every graph ``[B, out]``, or for every node ``[Σn, out]``.

        Args:
            batch: The graphs, with their spectra.
            return_attention: Whether to return also the attention as ``attention[layer][graph]``,
                each ``[heads, n, n]``.
            draw_seeds: One for each graph: draw ``frequency_fraction`` of its frequencies, by this
                seed, in evaluation too, where otherwise all are used.
        """
        x, edge_attr, graphs = self._prepare(batch, draw_seeds)
        if not return_attention:
            return self.predict(x, edge_attr, graphs)
        attention: list[list[Tensor]] = []
        return self.predict(x, edge_attr, graphs, attention), attention

    def predict(
        self,
        x: Tensor,
        edge_attr: Tensor | None,
        graphs: AttentionKernel,
        attention: list[list[Tensor]] | None = None,
    ) -> Tensor:
        """The prediction from raw features and a prepared structure, nothing checked.

        Appends each layer's attention to ``attention`` where that is given.
        """
        embedding = self._represent(x, edge_attr, graphs, attention)
        return self.head(embedding.nodes if embedding.graphs is None else embedding.graphs)

    def embed(self, batch: Data) -> Embedding:
        """The representations before the head: of graphs and of nodes."""
        return self._represent(*self._prepare(batch))

    @torch.compiler.disable
    def _prepare(
        self, batch: Data, draw_seeds: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor | None, AttentionKernel]:
        """What does not depend on the weights: the features, checked, and the structure."""
        graphs = RaggedGraphs.from_data(batch, self.dtype)
        x, edge_attr = self.features(batch, graphs.node_graph)
        check_batch_norm(self, graphs.num_nodes)
        draws = self.training or draw_seeds is not None
        if draws and self.config.frequency_fraction < 1:
            whole = self.config.frequency_draw == "eigenspaces"
            graphs = graphs.draw_frequencies(self.config.frequency_fraction, whole, draw_seeds)
        return x, edge_attr, make_kernel(graphs, self.backend)

    def _represent(
        self,
        x: Tensor,
        edge_attr: Tensor | None,
        graphs: AttentionKernel,
        attention: list[list[Tensor]] | None = None,
    ) -> Embedding:
        x = self.node_encoder(x)
        edges = None
        if self.edge_encoder is not None and edge_attr is not None:
            edges = _encode_edges(self.edge_encoder, edge_attr, graphs.graphs)
        if self.node_potentials is not None:
            x = self.node_potentials(x, graphs.graphs)
        if self.input_norm is not None:
            x = self.input_norm(x)
        scaler = self.degree_scaler
        scale = None if scaler is None else scaler.scale(graphs.graphs.degrees)
        attentions: list[Any] = [layer.attention for layer in self.layers]
        with torch.autocast(x.device.type, enabled=False):  # as the attention itself
            tables = graphs.tables([(a.phi1, a.phi2) for a in attentions])
        for layer, table in zip(self.layers, tables, strict=True):
            x = layer(x, graphs, edges, scale, attention is not None, table)
            if attention is not None:
                x, weights = x
                attention.append(weights)
        structure = graphs.graphs
        return Embedding(self.pool(x, structure.node_graph, structure.num_graphs), x)


def _encode_edges(encoder: FeatureEncoder, edge_attr: Tensor, graphs: RaggedGraphs) -> EncodedEdges:
    """The encoded edges, with rows that they share where the encoder knows of such."""
    no_edge = encoder.no_edge()
    if graphs.edge_slot is None:  # parallel edges are summed, and then share nothing
        kinds, factors = encoder.kinds(edge_attr), encoder.factors(edge_attr)
        if kinds is not None:
            return EncodedEdges(encoder(kinds[0]), no_edge, kind=kinds[1])
        if factors is not None:
            return EncodedEdges(factors[0], no_edge, coefficients=factors[1])
    return EncodedEdges(encoder(edge_attr), no_edge)
