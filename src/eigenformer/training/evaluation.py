"""How good a trained model is on a set of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import nn
from torch_geometric.data import Batch

from eigenformer.data.batching import GraphDataset
from eigenformer.frequencies import sample_for
from eigenformer.options import MetricName
from eigenformer.outputs import Outputs
from eigenformer.training.data_module import EpochBatches, graph_loader
from eigenformer.training.metrics import Score
from eigenformer.training.modes import evaluation_mode
from eigenformer.training.module import read_targets
from eigenformer.training.seeding import derived_seed


def evaluate(
    model: nn.Module,
    dataset: GraphDataset,
    outputs: Outputs,
    batch_size: int = 32,
    draw: int | None = None,
) -> float:
    """The metric of a model on a set of graphs, each of them used once.

    Args:
        model: The model.
        dataset: The graphs.
        outputs: What it predicts.
        batch_size: Graphs at a time.
        draw: Use a part of the frequencies, as the model was trained: which ones is a function of
            this number and of the graph's place in its archive (default: all frequencies).
    """
    return _evaluate(model, dataset, outputs, batch_size, draw, (outputs.metric,))[outputs.metric]


@torch.no_grad()
def _evaluate(
    model: nn.Module,
    dataset: GraphDataset,
    outputs: Outputs,
    batch_size: int = 32,
    draw: int | None = None,
    metrics: Sequence[MetricName] | None = None,
) -> dict[str, float]:
    """Several metrics at once (default: all that suit); takes what :func:`evaluate` takes."""
    score = Score(outputs, outputs.metrics if metrics is None else metrics)
    with evaluation_mode(model):
        for batch, seeds in seeded_batches(dataset, batch_size, draw):
            given = batch if seeds is None else sample_for(model.config, batch, seeds)
            score.update(model(given), read_targets(outputs, batch))
    return score.compute_all()


def seeded_batches(
    dataset: GraphDataset, batch_size: int, draw: int | None = None
) -> Iterator[tuple[Batch, list[int] | None]]:
    """All graphs in order, with the seeds of a draw of their frequencies.

    A graph's seed depends on the draw and on its place in the archive, not on its batch.
    """
    places = iter(dataset.indices.tolist())
    for batch in graph_loader(dataset, EpochBatches(len(dataset), batch_size)):
        graphs = islice(places, batch.num_graphs)
        if draw is None:
            yield batch, None
        else:
            yield batch, [derived_seed(draw, "frequencies", graph) for graph in graphs]
