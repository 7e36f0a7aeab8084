"""How good a trained model is on a set of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch

from eigenformer.config import DataConfig, TrainingConfig, load_preset
from eigenformer.data.batching import GraphDataset
from eigenformer.data.tables import is_table
from eigenformer.model_folder import ModelCard, ModelFolderError, load_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.nearest import unknown
from eigenformer.options import MetricName
from eigenformer.outputs import Outputs
from eigenformer.reporting import Reporter
from eigenformer.training.data_module import EpochBatches, graph_loader
from eigenformer.training.features import check_columns
from eigenformer.training.loading import (
    TrainingData,
    data_name,
    describe,
    is_benchmark,
    load_data,
)
from eigenformer.training.metrics import Score
from eigenformer.training.modes import evaluation_mode
from eigenformer.training.module import read_targets
from eigenformer.training.planning import check_fit
from eigenformer.training.run_folder import CONFIG, RunFolder
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
    return evaluate_all(model, dataset, outputs, batch_size, draw, (outputs.metric,))[
        outputs.metric
    ]


@torch.no_grad()
def evaluate_all(
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
            drawn = {} if seeds is None else {"draw_seeds": seeds}
            score.update(model(batch, **drawn), read_targets(outputs, batch))
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


@dataclass(frozen=True)
class FolderGraphs:
    """A trained model and graphs for it.

    Args:
        model: In evaluation mode.
        outputs: What it predicts.
        graphs: Of one split.
        batch_size: That of the run, for then figures agree to the last bit.
        split: What the graphs are.
        frozen_norms: Whether the run ended with batch norms that keep their statistics.
    """

    model: Eigenformer
    outputs: Outputs
    graphs: GraphDataset
    batch_size: int
    split: str
    frozen_norms: bool = False

    def evaluate(self) -> dict[str, float]:
        """All metrics that suit the model, on these graphs."""
        return evaluate_all(self.model, self.graphs, self.outputs, self.batch_size)


def load_folder(
    path: str | Path,
    split: str | None = None,
    dataset: str | None = None,
    raw_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    report: Reporter | None = None,
    columns: Mapping[str, Any] | None = None,
) -> FolderGraphs:
    """The model of a folder, and graphs of the data it was trained on.

    Args:
        path: A run folder, or any folder with ``model.safetensors`` and ``model.json``.
        split: Which graphs: ``train``, ``val``, ``test`` or ``all`` (default: ``test``; of other
            data of the user's own, which no model was trained on, all).
        dataset: Other data than the model was trained on, or the same in another place.
        raw_dir: As in :func:`load_data`, with the rest.
        cache_dir: The same.
        report: The same.
        columns: Settings of ``dataset`` that are not as in training: ``smiles``, ``targets``.
    """
    model, card = load_model(path)
    if card.outputs is None or card.data is None:
        raise ModelFolderError(f"{path}: the model does not say what it predicts")
    if columns and dataset is None:
        raise ModelFolderError(f"{', '.join(columns)}: of other data; say --data")
    own = trained_on(path, card)
    config = own
    if dataset is not None:
        config = replace(_other(own, dataset, card.outputs), **(columns or {}))
    if split is None:
        known = is_benchmark(config.dataset) or data_name(config.dataset) == data_name(own.dataset)
        split = "test" if known else "all"
    data = load_data(config, raw_dir, cache_dir, report=report)
    if dataset is not None:
        check_columns(card, data.archive, dataset)
        data = _understood(data, card.outputs)
    # The data's own standardisation is not the model's.
    check_fit(model.config, data, card.preset or "none")
    graphs = data.dataset(split)
    if not len(graphs):
        raise ModelFolderError(f"{config.dataset}: no graphs in the split '{split}'")
    training = _training(Path(path), card.preset)
    frozen = training is not None and training.epochs_before_freezing < training.epochs
    batch_size = 32 if training is None else training.batch_size
    return FolderGraphs(model, card.outputs, graphs, batch_size, split, frozen)


def trained_on(path: str | Path, card: ModelCard) -> DataConfig:
    """What a model was trained on: by its run's settings, which know where the data is.

    A card alone only knows what it is called.
    """
    if (Path(path) / CONFIG).is_file():
        return RunFolder.open(path).read_config().data
    if card.data is None:
        raise ModelFolderError(f"{path}: the model does not say what it was trained on")
    return card.data


def _other(config: DataConfig, dataset: str, outputs: Outputs) -> DataConfig:
    """Other data of the same kind: what the targets are is not guessed again."""
    known = is_table(Path(dataset))
    return replace(config, dataset=dataset, task=outputs.kind if known else config.task)


def _understood(data: TrainingData, outputs: Outputs) -> TrainingData:
    """Other data, its classes with the numbers that the model has for them."""
    theirs = data.outputs
    if (theirs.level, theirs.kind) != (outputs.level, outputs.kind):
        raise ModelFolderError(
            f"{data.name}: {describe(theirs)}, but the model predicts {describe(outputs)}"
        )
    if theirs.kind != "multiclass" or theirs.names == outputs.names or not theirs.names:
        return data
    for name in theirs.names:
        if name not in outputs.names:
            raise ModelFolderError(unknown(f"{data.name}: class '{name}'", name, outputs.names))
    field = data.archive.fields["y"]
    places = np.array([outputs.names.index(name) for name in theirs.names])
    values = np.where(field.values >= 0, places[field.values], field.values)
    archive = data.archive.with_field("y", replace(field, values=values))
    return replace(data, archive=archive, outputs=outputs)


def _training(path: Path, preset: str | None) -> TrainingConfig | None:
    """How a model was trained, as far as its folder says."""
    if (path / CONFIG).is_file():
        return RunFolder.open(path).read_config().training
    return None if preset is None else load_preset(preset).training
