"""What the demo sets beside its Eigenformer: networks of the same size, and the majority class."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eigenformer.config import ConfigError, EigenformerConfig, RunConfig
from eigenformer.models import build_model, comparable
from eigenformer.options import NETWORK_NAMES
from eigenformer.training.in_memory import fit_in_memory
from eigenformer.training.loading import TrainingData
from eigenformer.training.predicting import evaluate
from eigenformer.training.scores import Score
from eigenformer.training.seeding import derived_seed

NETWORKS = ("gcn", "gin")
"""The networks that the demo trains."""


@dataclass(frozen=True)
class Compared:
    """A network's metric on the test set.

    Args:
        name: The name of the network.
        parameters: The number of its parameters.
        test: The metric on the test set, with the weights that were best on the validation set.
    """

    name: str
    parameters: int
    test: float


def check_comparable(config: RunConfig) -> EigenformerConfig:
    """Returns the architecture of a run, or raises an error if it has no comparable networks."""
    if not isinstance(config.model, EigenformerConfig):
        raise ConfigError(
            f"model.kind: only an Eigenformer is compared with other networks, not "
            f"{config.model.title}"
        )
    return config.model


def train_comparable(network: str, config: RunConfig, data: TrainingData) -> Compared:
    """Trains a network of comparable size and tests it.

    Optimiser, schedule, batches, seed and the choice of the best epoch are those of the run.
    """
    like = check_comparable(config)
    torch.manual_seed(derived_seed(config.seed, "weights"))
    model = build_model(comparable(network, like))
    fit_in_memory(model, data.target, config, data.dataset("train"), data.dataset("val"))
    metric = data.target.metric
    test = evaluate(
        *(model, data.dataset("test"), data.target, config.training.batch_size), (metric,)
    )
    return Compared(NETWORK_NAMES.get(network, network), model.num_parameters(), test[metric])


def majority(data: TrainingData) -> Compared:
    """Tests a predictor that always returns the most frequent class of the training set."""
    target, test = data.target, data.dataset("test")
    targets = target.read(test.batch(range(len(test))))
    score = Score(target)
    score.update(target.constant(data.targets("train")).expand(len(targets), -1), targets)
    return Compared("majority class", 0, score.compute())
