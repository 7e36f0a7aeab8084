"""What a result is worth: PyG's own networks of the same size, trained the same way."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Batch

from eigenformer.config import ConfigError, EigenformerConfig, RunConfig
from eigenformer.data.batching import GraphDataset
from eigenformer.models import build_model, comparable
from eigenformer.options import Convolution
from eigenformer.outputs import Outputs
from eigenformer.training.evaluation import evaluate
from eigenformer.training.in_memory import fit_in_memory
from eigenformer.training.loading import TrainingData
from eigenformer.training.metrics import Score
from eigenformer.training.module import read_targets
from eigenformer.training.seeding import derived_seed

NETWORKS: tuple[Convolution, ...] = ("gcn", "gin")
"""What an Eigenformer is compared with."""


@dataclass(frozen=True)
class Compared:
    """A network's metric on the test set.

    Args:
        name: What it is called.
        parameters: How many it has.
        test: The metric, of the weights that were best on the validation set.
    """

    name: str
    parameters: int
    test: float


def train_comparable(convolution: Convolution, config: RunConfig, data: TrainingData) -> Compared:
    """Trains with the optimiser, schedule, batches, seed and choice of the best epoch of a run."""
    if not isinstance(config.model, EigenformerConfig):
        raise ConfigError("model.kind: only an Eigenformer is compared with other networks")
    torch.manual_seed(derived_seed(config.seed, "weights"))
    model = build_model(comparable(convolution, config.model))
    fit_in_memory(model, data.outputs, config, data.dataset("train"), data.dataset("val"))
    test = evaluate(model, data.dataset("test"), data.outputs, config.training.batch_size)
    return Compared(convolution.upper(), model.num_parameters(), test)


def majority(data: TrainingData) -> Compared:
    """Always the class that is most frequent in the training set."""
    labels = read_targets(data.outputs, _whole(data.dataset("train")))
    counts = torch.bincount(labels.long().reshape(-1))
    targets = read_targets(data.outputs, _whole(data.dataset("test")))
    score = Score(data.outputs)
    score.update(_constant(data.outputs, int(counts.argmax()), len(targets)), targets)
    return Compared("majority class", 0, score.compute())


def _whole(dataset: GraphDataset) -> Batch:
    return dataset.batch(range(len(dataset)))


def _constant(outputs: Outputs, label: int, rows: int) -> Tensor:
    """Logits that say one thing."""
    if outputs.kind == "multiclass":
        return torch.eye(outputs.num_outputs)[[label]].expand(rows, -1)
    return torch.full((rows, 1), 2.0 * label - 1)
