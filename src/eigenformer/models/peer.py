"""What the peers of the Eigenformer have in common: inputs with an encoding, a pool and a head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.batch_norm import check_batch_norm
from eigenformer.config import PeerConfig
from eigenformer.encoders import build_encoder
from eigenformer.encodings import build_encoding
from eigenformer.models.base import Embedding, Model
from eigenformer.parts import make_head
from eigenformer.ragged import checked_edges, graph_of_rows, graph_sizes


@dataclass(frozen=True, eq=False)
class Inputs:
    """An encoded batch.

    Args:
        x: The nodes, ``[Σn, d]``: encoded features, and beside them the encoding.
        edge_index: The edges, ``[2, M]``.
        edges: Their encoded features, ``[M, d]``; None if the network encodes none.
        node_graph: The graph of each node, ``[Σn]``.
        sizes: The number of nodes per graph.
        batch: The batch itself.
    """

    x: Tensor
    edge_index: Tensor
    edges: Tensor | None
    node_graph: Tensor
    sizes: tuple[int, ...]
    batch: Data


class Peer(Model):
    """A network with encoders, an optional encoding of the structure, a pool and a head.

    A subclass builds its layers after calling this ``__init__``, and computes in :meth:`nodes`.

    Args:
        config: The architecture.
        sees_edges: Whether the network uses edge features, if there are any.
    """

    config: PeerConfig  # type: ignore[assignment]

    def __init__(self, config: PeerConfig, sees_edges: bool = True) -> None:
        super().__init__(config)
        d, encoding = config.hidden_dim, config.encoding
        self.node_encoder = build_encoder(
            config.node_encoder, d if encoding is None else d - encoding.width
        )
        self.edge_encoder = (
            build_encoder(config.edge_encoder, d)
            if sees_edges and config.edge_encoder is not None
            else None
        )
        self.encoding = None if encoding is None else build_encoding(encoding)
        self.head = make_head(
            self.head_width, config.out_channels, config.head_layers, config.head_narrows
        )

    def encode(self, batch: Data) -> Inputs:
        """Checks and encodes a batch."""
        sizes = graph_sizes(batch)
        device = self.node_device
        node_graph = graph_of_rows(sizes, device)
        edge_index = checked_edges(batch, node_graph)
        features, edge_attr = self.features(batch, node_graph)
        check_batch_norm(self, len(node_graph))
        x = self.node_encoder(features).to(self.dtype)
        if self.encoding is not None:
            x = torch.cat([x, self.encoding(batch, node_graph)], 1)
        edges = None
        if self.edge_encoder is not None and edge_attr is not None:
            edges = self.edge_encoder(edge_attr).to(self.dtype)
        return Inputs(x, edge_index, edges, node_graph, sizes, batch)

    @property
    def node_device(self) -> torch.device:
        """The device that the network computes on."""
        return next(self.parameters()).device

    def nodes(self, inputs: Inputs) -> Tensor:
        """Computes the last nodes, ``[Σn, d]``, in the order of the batch."""
        raise NotImplementedError

    def forward(self, batch: Data) -> Tensor:
        """Predicts for every graph ``[B, out]``, or for every node ``[Σn, out]``."""
        return self.decode(self.embed(batch), batch)

    def embed(self, batch: Data) -> Embedding:
        """Returns the representations of graphs and nodes before the head."""
        inputs = self.encode(batch)
        x = self.nodes(inputs)
        return Embedding(self.pool(x, inputs.node_graph, len(inputs.sizes)), x)
