"""What all networks have in common: what training, diagnosis and pages ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool, global_mean_pool

from eigenformer.config import ModelConfig, NetworkConfig
from eigenformer.encoders import FeatureEncoder, checked_features
from eigenformer.options import Backend

Parts = dict[str, list[nn.Parameter]]
"""Parameters by the part of a model that they belong to."""


class Model(nn.Module):
    """A network: node and edge encoders, anything, a pool and a head.

    A subclass builds its modules in ``__init__`` and computes in ``forward``; those called
    ``node_encoder``, ``edge_encoder`` and ``head`` are used by the methods here.

    Args:
        config: The architecture.
    """

    node_encoder: FeatureEncoder
    edge_encoder: FeatureEncoder | None
    head: nn.Module

    backend: Backend = "auto"
    """How attention is computed, where there is spectrum-aware attention. Not saved."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = cast(ModelConfig, config)  # one more network is one more name there

    @property
    def needs_spectrum(self) -> bool:
        """Whether graphs need a spectrum."""
        return self.config.needs_spectrum

    def forward(self, batch: Data) -> Tensor:
        """Predicts for every graph ``[B, out]``, or for every node ``[Σn, out]``."""
        raise NotImplementedError

    def features(self, batch: Data, node_graph: Tensor) -> tuple[Tensor, Tensor | None]:
        """The raw features of nodes and edges, checked against what the encoders know.

        Args:
            batch: The graphs.
            node_graph: ``[Σn]``, the graph of each node.
        """
        x = checked_features(batch, "x", self.node_encoder, node_graph)
        if self.edge_encoder is None:
            return x, None
        edge_graph = node_graph[[] if batch.edge_index is None else batch.edge_index[1]]
        return x, checked_features(batch, "edge_attr", self.edge_encoder, edge_graph)

    def pool(self, x: Tensor, node_graph: Tensor, num_graphs: int) -> Tensor | None:
        """``[Σn, d] → [B, d]``; None where predictions are about nodes."""
        if self.config.pooling == "none":
            return None
        pool = global_add_pool if self.config.pooling == "sum" else global_mean_pool
        return pool(x, node_graph, num_graphs)

    def parts(self) -> Parts:
        """All trainable parameters by what they are for, each once."""
        return self.completed({})

    def completed(self, parts: Mapping[str, Sequence[nn.Parameter]]) -> Parts:
        """``parts`` without empty ones, and all other parameters by the module they are in."""
        result: Parts = {}
        seen: set[int] = set()
        for part, parameters in (*parts.items(), *self._by_module().items()):
            new = {id(p): p for p in parameters if id(p) not in seen}
            seen |= set(new)
            if new:
                result.setdefault(part, []).extend(new.values())
        return result

    def _by_module(self) -> Parts:
        """Parameters by the module that holds them: a child, or a child of one in a list."""
        parts: Parts = {}
        for name, parameter in self.named_parameters():
            words = [word for word in name.split(".") if not word.isdigit()]
            place = words[1] if words[0] == "layers" and len(words) > 2 else words[0]
            parts.setdefault(place.replace("_", " "), []).append(parameter)
        return parts

    @property
    def output_bias(self) -> nn.Parameter | None:
        """The bias that is added to every prediction, where the head ends with one."""
        last = self.head[-1] if isinstance(self.head, nn.Sequential) else self.head
        return last.bias if isinstance(last, nn.Linear) else None

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return next(self.parameters()).dtype

    def num_parameters(self) -> int:
        """The number of trainable parameters; shared ones count once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def save(self, folder: str | Path) -> None:
        """Writes ``model.safetensors`` and ``model.json``: weights and architecture."""
        from eigenformer.model_folder import save_model

        save_model(folder, self)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A saved model, in evaluation mode. Nothing is unpickled."""
        from eigenformer.model_folder import load_model

        model = load_model(folder)[0]
        if not isinstance(model, cls):
            raise TypeError(f"{folder}: holds {type(model).__name__}, not {cls.__name__}")
        return model
