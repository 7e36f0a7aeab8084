"""The Eigenformer: a graph goes in, a prediction comes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool, global_mean_pool

from eigenformer.config import (
    CategoricalSpec,
    EigenformerConfig,
    EmbeddingSpec,
    EncoderSpec,
    LinearSpec,
    load_preset,
)
from eigenformer.edges import EncodedEdges
from eigenformer.encoders import (
    CategoricalEncoder,
    EmbeddingEncoder,
    FeatureEncoder,
    LinearEncoder,
    OnesEncoder,
)
from eigenformer.kernels import AttentionKernel, Backend, make_kernel
from eigenformer.layer import DegreeScaler, EigenformerLayer, check_batch_norm
from eigenformer.node_potentials import NodePotentials
from eigenformer.ragged import RaggedGraphs, name_graph


class Embedding(NamedTuple):
    """Representations before the head: ``nodes`` ``[Σn, d]``, ``graphs`` ``[B, d]`` pooled from
    them, or None for a node task.
    """

    graphs: Tensor | None
    nodes: Tensor


class Eigenformer(nn.Module):
    r"""The graph transformer of `"Graph Transformers without Positional Encodings"
    <https://arxiv.org/abs/2401.17791>`_.

    Encoders, ``config.layers`` times :class:`EigenformerLayer`, a pool and a head. Takes a
    PyG ``Data`` or ``Batch`` whose graphs carry a spectrum, see :class:`LaplacianSpectrum`.

    Args:
        config: The architecture.
        backend: How attention is computed. An attribute that may be changed at any time; it is
            not saved with the model.
    """

    def __init__(self, config: EigenformerConfig, backend: Backend = "auto") -> None:
        super().__init__()
        if not isinstance(config, EigenformerConfig):
            raise TypeError(f"expected an EigenformerConfig, got a {type(config).__name__}")
        self.config = config
        self.backend: Backend = backend
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
        return cls(load_preset(name).model.replace(**changes), backend)

    def save(self, folder: str | Path) -> None:
        """Writes ``model.safetensors`` and ``model.json``: weights and architecture."""
        from eigenformer.model_folder import save_model

        save_model(folder, self)

    @classmethod
    def load(cls, folder: str | Path) -> Eigenformer:
        """A saved model, in evaluation mode. Nothing is unpickled."""
        from eigenformer.model_folder import load_model

        return load_model(folder)[0]

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

    def num_parameters(self) -> int:
        """The number of trainable parameters; shared ones count once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    @torch.compiler.disable
    def _prepare(
        self, batch: Data, draw_seeds: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor | None, AttentionKernel]:
        """What does not depend on the weights: the features, checked, and the structure."""
        graphs = RaggedGraphs.from_data(batch, last_linear(self.head).weight.dtype)
        x, edge_attr = self._features(batch, graphs)
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
        return Embedding(self._pool(x, graphs.graphs), x)

    def _pool(self, x: Tensor, graphs: RaggedGraphs) -> Tensor | None:
        if self.config.pooling == "none":
            return None
        pool = global_add_pool if self.config.pooling == "sum" else global_mean_pool
        return pool(x, graphs.node_graph, graphs.num_graphs)

    def _features(self, batch: Data, graphs: RaggedGraphs) -> tuple[Tensor, Tensor | None]:
        """The raw features, checked against what the encoders know."""
        x = _feature(batch, "x", self.node_encoder, graphs.node_graph)
        if self.edge_encoder is None:
            return x, None
        edge_index = batch.edge_index
        edge_graph = graphs.node_graph[[] if edge_index is None else edge_index[1]]
        return x, _feature(batch, "edge_attr", self.edge_encoder, edge_graph)


def build_head(channels: int, out_channels: int, layers: int = 1) -> nn.Module:
    """From a graph or a node to its predictions: a linear map, or a network that narrows.

    Each hidden layer has half the width of the one before it, and a ReLU.
    """
    modules: list[nn.Module] = []
    for _ in range(layers - 1):
        narrower = max(channels // 2, 1)
        modules += [nn.Linear(channels, narrower), nn.ReLU()]
        channels = narrower
    last = nn.Linear(channels, out_channels)
    return nn.Sequential(*modules, last) if modules else last


def last_linear(head: nn.Module) -> nn.Linear:
    """The last linear map of a head, whose bias is added to every prediction."""
    last = head[-1] if isinstance(head, nn.Sequential) else head
    assert isinstance(last, nn.Linear)
    return last


def build_encoder(spec: EncoderSpec, channels: int) -> FeatureEncoder:
    """The encoder that a specification asks for, with new weights."""
    if isinstance(spec, EmbeddingSpec):
        return EmbeddingEncoder(channels, spec.num_types, spec.width, spec.no_edge_type)
    if isinstance(spec, CategoricalSpec):
        return CategoricalEncoder(channels, spec.sizes)
    if isinstance(spec, LinearSpec):
        return LinearEncoder(channels, spec.in_channels, spec.bias)
    return OnesEncoder(channels)


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


def _feature(batch: Data, attribute: str, encoder: FeatureEncoder, graph_of_row: Tensor) -> Tensor:
    """The attribute's values, or an error that names the attribute and the graph."""
    features = batch.get(attribute)
    if isinstance(encoder, OnesEncoder) or not len(graph_of_row):
        return graph_of_row.new_empty(len(graph_of_row), 0)
    if features is None:
        raise ValueError(
            f"{name_graph(torch.ones_like(graph_of_row), graph_of_row)}: '{attribute}' is missing, "
            f"and the model encodes it with {type(encoder).__name__}"
        )
    if len(features) != len(graph_of_row):
        raise ValueError(
            f"{attribute}: {len(features)} rows in the batch, expected {len(graph_of_row)}, one "
            f"for every {'node' if attribute == 'x' else 'edge'}"
        )
    problem = encoder.problem(features)
    if problem is not None:
        rows, reason = problem
        raise ValueError(f"{name_graph(rows, graph_of_row)}: {attribute}: {reason}")
    return features
