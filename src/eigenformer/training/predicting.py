"""The only prediction loop: takes batches of graphs and yields the model's output."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from eigenformer.data.batching import GraphDataset
from eigenformer.models.base import Embedding, Model
from eigenformer.models.ensemble import Ensemble
from eigenformer.targets import Calibration, Target
from eigenformer.training.modes import evaluation_mode
from eigenformer.training.receiving import in_time, received
from eigenformer.training.seeding import derived_seed

Transform = Callable[[Batch, np.ndarray], Batch]
"""Changes a batch before prediction, given the indices of its graphs in their archive."""


@dataclass(frozen=True, eq=False)
class PredictedBatch:
    """A batch of graphs and the model's output for it, on the CPU.

    Args:
        batch: The graphs as stored, before any transform.
        places: The index of each graph in its archive or sequence.
        output: The model's raw output, ``[graphs, out]`` or ``[nodes, out]``.
        spread: The deviation of the members of an ensemble in units, of the same shape; None for
            any other model.
        attention: The attention weights ``[heads, n, n]`` per layer and graph; empty unless
            requested.
        embedding: The representations before the head; None unless requested.
    """

    batch: Batch
    places: np.ndarray
    output: Tensor
    spread: Tensor | None
    attention: list[list[Tensor]]
    embedding: Embedding | None = None


@torch.no_grad()
def predict_batches(
    model: nn.Module,
    graphs: GraphDataset | Sequence[Data],
    batch_size: int = 64,
    transform: Transform | None = None,
    return_attention: bool = False,
    return_embedding: bool = False,
) -> Iterator[PredictedBatch]:
    """Predicts for all graphs in order, in evaluation mode, on the model's device.

    Args:
        model: The model.
        graphs: A dataset, or PyG graphs with their spectra.
        batch_size: Graphs per batch.
        transform: Applied to each batch before prediction.
        return_attention: Whether to return the attention weights, too.
        return_embedding: Whether to return the representations before the head, too.
    """
    device = model_device(model)

    def batches() -> Iterator[tuple[Batch, np.ndarray, Batch]]:
        for start in range(0, len(graphs), batch_size):
            chosen = np.arange(start, min(start + batch_size, len(graphs)))
            if isinstance(graphs, GraphDataset):
                batch, places = graphs.batch(chosen), graphs.indices[chosen]
            else:
                batch, places = Batch.from_data_list([graphs[int(i)] for i in chosen]), chosen
            given = batch if transform is None else transform(batch, places)
            yield batch, places, received(model, copy.copy(given), device)

    with evaluation_mode(model):
        for batch, places, given in in_time(batches(), device):
            attention: list[list[Tensor]] = []
            spread = embedding = None
            if return_embedding:
                assert isinstance(model, Model)
                seen = model.embed(given)
                output = model.decode(seen, given)
                pooled = None if seen.graphs is None else seen.graphs.cpu()
                embedding = Embedding(pooled, seen.nodes.cpu())
            elif return_attention:
                output, layers = model(given, return_attention=True)
                attention = [[weights.cpu() for weights in layer] for layer in layers]
            elif isinstance(model, Ensemble):
                each = model.each(given)
                output, spread = model.combined(each), each.std(0, correction=0).cpu()
            else:
                output = model(given)
            yield PredictedBatch(batch, places, output.cpu(), spread, attention, embedding)


def evaluate(
    model: nn.Module,
    graphs: GraphDataset,
    target: Target,
    batch_size: int = 32,
    metrics: Sequence[str] | None = None,
    transform: Transform | None = None,
) -> dict[str, float]:
    """Returns the metrics of a model on a set of graphs. Each graph is used once.

    Raises an error if a prediction is infinite or NaN.

    Args:
        model: The model.
        graphs: The graphs.
        target: What it predicts.
        batch_size: Graphs per batch.
        metrics: The metrics to compute (default: all metrics of the target).
        transform: Applied to each batch before prediction.
    """
    from eigenformer.training.scores import Score  # loads torchmetrics: a second

    score = Score(target, target.metrics if metrics is None else metrics)
    for found in predict_batches(model, graphs, batch_size, transform):
        score.update(found.output, target.read(found.batch))
    if count := score.invalid():
        raise ValueError(
            f"{count} predicted values are not finite numbers, so there are no metrics; check the "
            f"data for extreme values"
        )
    return score.compute_all()


def evaluate_each(
    model: nn.Module, graphs: GraphDataset, target: Target, batch_size: int = 32
) -> dict[str, dict[str, float]]:
    """Returns the metrics of each of several targets by its name; empty for a single target."""
    from eigenformer.training.scores import Score

    singles = [target.single(column) for column in range(target.num_outputs)]
    scores = [Score(one, one.metrics) for one in singles if one is not None]
    if not scores:
        return {}
    for found in predict_batches(model, graphs, batch_size):
        truth = target.read(found.batch)
        for column, score in enumerate(scores):
            one = slice(column, column + 1)
            score.update(found.output[:, one], truth[:, one])
    names = target.column_names
    return {name: score.compute_all() for name, score in zip(names, scores, strict=True)}


def calibrated(
    model: nn.Module, graphs: GraphDataset, target: Target, batch_size: int = 32
) -> Calibration:
    """Returns how wrong a model is on graphs with known targets."""
    scores = []
    for found in predict_batches(model, graphs, batch_size):
        values, truth = target.in_units(found.output), target.read(found.batch)
        scores.append(target.scores(values.double().numpy(), truth.numpy()))
    return Calibration.from_scores(np.concatenate(scores).T)


def model_device(model: nn.Module) -> torch.device:
    """Returns the device of a model's weights."""
    weights = next(model.parameters(), None)
    return torch.device("cpu") if weights is None else weights.device


def frequency_seeds(sample: int, places: np.ndarray) -> list[int]:
    """Returns one seed per graph for sampling frequencies: a function of (sample, its index)."""
    return [derived_seed(sample, "frequencies", int(place)) for place in places]
