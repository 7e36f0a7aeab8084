"""What a result is worth: PyG's own networks of the same size, trained the same way."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import global_add_pool, global_mean_pool
from torch_geometric.nn.models import GCN, GIN

from eigenformer.config import EigenformerConfig, RunConfig
from eigenformer.data.batching import GraphDataset
from eigenformer.models.eigenformer import Eigenformer, build_encoder
from eigenformer.outputs import Outputs
from eigenformer.training.evaluation import evaluate
from eigenformer.training.in_memory import fit_in_memory
from eigenformer.training.loading import TrainingData
from eigenformer.training.metrics import Score
from eigenformer.training.module import read_targets
from eigenformer.training.seeding import derived_seed

Network = Literal["GCN", "GIN"]
NETWORKS: tuple[Network, ...] = get_args(Network)
_LAYERS = {"GCN": GCN, "GIN": GIN}


@dataclass(frozen=True)
class BaselineResult:
    """A network's metric on the test set.

    Args:
        name: What it is called.
        parameters: How many it has.
        test: The metric, of the weights that were best on the validation set.
    """

    name: str
    parameters: int
    test: float


class Baseline(nn.Module):
    """A message-passing network of PyG, with the encoder, the pool and the head of an Eigenformer.

    Sees nodes and edges, not edge features and no spectrum.

    Args:
        network: Which layers.
        config: The Eigenformer to stand beside: its layers, encoder, pool and outputs.
        width: Of the hidden layers (default: that which comes nearest to as many parameters).
    """

    def __init__(
        self, network: Network, config: EigenformerConfig, width: int | None = None
    ) -> None:
        super().__init__()
        if width is None:
            width = _fitting_width(network, config)
        self.pooling = config.pooling
        self.encoder = build_encoder(config.node_encoder, width)
        self.layers = _LAYERS[network](width, width, config.layers, norm="BatchNorm")
        self.head = nn.Linear(width, config.out_channels)

    def forward(self, batch: Batch) -> Tensor:
        """Predicts for every graph, or for every node."""
        size = batch.num_nodes
        ones = torch.ones(batch.edge_index.size(1))
        # Aᵀ in compressed rows: a sparse product instead of one message per edge.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse ")  # PyTorch calls its CSR a beta
            pairs = torch.sparse_coo_tensor(batch.edge_index.flip(0), ones, (size, size))
            adjacency = pairs.to_sparse_csr()
        x = self.layers(self.encoder(batch.x), adjacency)
        if self.pooling != "none":
            pool = global_add_pool if self.pooling == "sum" else global_mean_pool
            x = pool(x, batch.batch, batch.num_graphs)
        return self.head(x)

    def num_parameters(self) -> int:
        """The number of trainable parameters."""
        return sum(p.numel() for p in self.parameters())


def train_baseline(network: Network, config: RunConfig, data: TrainingData) -> BaselineResult:
    """Trains with the optimiser, schedule, batches, seed and choice of the best epoch of a run."""
    torch.manual_seed(derived_seed(config.seed, "weights"))
    model = Baseline(network, config.model)
    fit_in_memory(model, data.outputs, config, data.dataset("train"), data.dataset("val"))
    test = evaluate(model, data.dataset("test"), data.outputs, config.training.batch_size)
    return BaselineResult(network, model.num_parameters(), test)


def majority(data: TrainingData) -> BaselineResult:
    """Always the class that is most frequent in the training set."""
    labels = read_targets(data.outputs, _whole(data.dataset("train")))
    counts = torch.bincount(labels.long().reshape(-1))
    targets = read_targets(data.outputs, _whole(data.dataset("test")))
    score = Score(data.outputs)
    score.update(_constant(data.outputs, int(counts.argmax()), len(targets)), targets)
    return BaselineResult("majority class", 0, score.compute())


def _whole(dataset: GraphDataset) -> Batch:
    return dataset.batch(range(len(dataset)))


def _constant(outputs: Outputs, label: int, rows: int) -> Tensor:
    """Logits that say one thing."""
    if outputs.kind == "multiclass":
        return torch.eye(outputs.num_outputs)[[label]].expand(rows, -1)
    return torch.full((rows, 1), 2.0 * label - 1)


def _fitting_width(network: Network, config: EigenformerConfig) -> int:
    wanted = Eigenformer(config).num_parameters()
    sizes = {
        width: Baseline(network, config, width).num_parameters()
        for width in range(8, 8 * config.hidden_dim, 8)
    }
    return min(sizes, key=lambda width: abs(sizes[width] - wanted))
