"""Base class of all networks: the interface that training, diagnosis and pages use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool, global_mean_pool
from typing_extensions import Self

from eigenformer.config import ModelConfig, NetworkConfig
from eigenformer.descriptor_encoder import DescriptorEncoder
from eigenformer.encoders import FeatureEncoder, checked_features
from eigenformer.options import Backend

Parts = dict[str, list[nn.Parameter]]
"""Parameters by the part of the model they belong to."""


class Embedding(NamedTuple):
    """Representations before the head.

    ``nodes`` is ``[Σn, d]``. ``graphs``, pooled from the nodes, is ``[B, d]``, or None for node
    tasks.
    """

    graphs: Tensor | None
    nodes: Tensor


class Model(nn.Module):
    """A network: node and edge encoders, any layers, a pool and a head.

    A subclass builds its modules in ``__init__`` and computes in ``forward``. The methods of this
    class use the modules ``node_encoder``, ``edge_encoder`` and ``head``.

    Args:
        config: The architecture.
    """

    node_encoder: FeatureEncoder
    edge_encoder: FeatureEncoder | None
    head: nn.Module
    descriptor_encoder: DescriptorEncoder | None

    backend: Backend = "auto"
    """How spectrum-aware attention is computed, in networks that have it. Not saved."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = cast(ModelConfig, config)  # a new network adds its settings to ModelConfig
        self.descriptor_encoder = (
            DescriptorEncoder(config.num_descriptors, config.hidden_dim, config.dropout)
            if config.num_descriptors
            else None
        )

    @property
    def head_width(self) -> int:
        """Width of what the head sees: the pooled nodes, and beside them the descriptors."""
        return self.config.hidden_dim * (1 if self.descriptor_encoder is None else 2)

    def join(self, pooled: Tensor, batch: Data | None) -> Tensor:
        """Returns the pooled nodes with the descriptors of the graphs, for the head."""
        if self.descriptor_encoder is None:
            return pooled
        if batch is None:
            raise ValueError("the model needs the descriptors of the graphs")
        return torch.cat([pooled, self.descriptor_encoder(batch, len(pooled))], 1)

    @property
    def needs_spectrum(self) -> bool:
        """Whether graphs need a spectrum."""
        return self.config.needs.spectrum

    def forward(self, batch: Data) -> Tensor:
        """Predicts for every graph ``[B, out]``, or for every node ``[Σn, out]``."""
        raise NotImplementedError

    def embed(self, batch: Data) -> Embedding:
        """Returns the representations of graphs and nodes before the head."""
        raise NotImplementedError(f"{self.config.title}: does not tell its representations")

    def decode(self, embedding: Embedding, batch: Data | None) -> Tensor:
        """Predicts from representations, and from the descriptors of the batch if there are any."""
        pooled = embedding.graphs
        return self.head(embedding.nodes if pooled is None else self.join(pooled, batch))

    def features(self, batch: Data, node_graph: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the raw features of nodes and edges, after checking that the encoders fit them.

        Args:
            batch: The graphs.
            node_graph: Graph of each node, ``[Σn]``.
        """
        again = not getattr(batch.get("checked"), "features", False)
        x = checked_features(batch, "x", self.node_encoder, node_graph, again)
        if self.edge_encoder is None:
            return x, None
        none = batch.edge_index is None
        edge_graph = node_graph[:0] if none else node_graph[batch.edge_index[1]]
        return x, checked_features(batch, "edge_attr", self.edge_encoder, edge_graph, again)

    def check(self, batch: Data) -> Data:
        """Checks a batch where it was made, so that it need not be checked on another device.

        Returns a shallow copy that remembers the result, or the batch itself if the network does
        not make use of it.
        """
        return batch

    def pool(self, x: Tensor, node_graph: Tensor, num_graphs: int) -> Tensor | None:
        """Pools nodes into graphs, ``[Σn, d] → [B, d]``; returns None for node tasks."""
        if self.config.pooling == "none":
            return None
        pool = global_add_pool if self.config.pooling == "sum" else global_mean_pool
        return pool(x, node_graph, num_graphs)

    def parts(self) -> Parts:
        """Returns all trainable parameters by their purpose, each once."""
        return self.completed({})

    def completed(self, parts: Mapping[str, Sequence[nn.Parameter]]) -> Parts:
        """Removes empty ``parts`` and adds all other parameters by the module that holds them."""
        result: Parts = {}
        seen: set[int] = set()
        for part, parameters in (*parts.items(), *self._by_module().items()):
            new = {id(p): p for p in parameters if id(p) not in seen}
            seen |= set(new)
            if new:
                result.setdefault(part, []).extend(new.values())
        return result

    def _by_module(self) -> Parts:
        """Returns parameters by module: a child of the model, or a child of one of its layers."""
        parts: Parts = {}
        for name, parameter in self.named_parameters():
            words = [word for word in name.split(".") if not word.isdigit()]
            place = words[1] if words[0] == "layers" and len(words) > 2 else words[0]
            parts.setdefault(place.replace("_", " "), []).append(parameter)
        return parts

    @property
    def output_bias(self) -> nn.Parameter | None:
        """Bias that the head adds to every prediction; None if its last module has no bias."""
        last = self.head[-1] if isinstance(self.head, nn.Sequential) else self.head
        return last.bias if isinstance(last, nn.Linear) else None

    @property
    def dtype(self) -> torch.dtype:
        """Type of the parameters, in which the network computes."""
        return next(self.parameters()).dtype

    def num_parameters(self) -> int:
        """Returns the number of trainable parameters; shared parameters count once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def save(self, folder: str | Path) -> None:
        """Writes ``model.safetensors`` and ``model.json``: weights and architecture."""
        from eigenformer.model_folder import save_model

        save_model(folder, self)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Loads a saved model, in evaluation mode, without unpickling anything."""
        from eigenformer.model_folder import load_model

        model = load_model(folder)[0]
        if not isinstance(model, cls):
            raise TypeError(f"{folder}: contains {type(model).__name__}, not {cls.__name__}")
        return model


def no_spectral_attention(model: Model) -> str:
    """Returns the error message for a network without the attention that was asked for."""
    return f"{model.config.title}: has no spectrum-aware attention; use an Eigenformer"
