"""One graph through the eyes of a trained model: prediction, spectrum, and where heads look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data

from eigenformer.analysis.filters import Filters, learned_filters
from eigenformer.analysis.graph_view import Subject, find_subject, graph_of
from eigenformer.analysis.heads import attention_of
from eigenformer.data.errors import DataError
from eigenformer.data.fields import SPLITS
from eigenformer.data.workspace import Sources
from eigenformer.model_folder import ModelCard, ModelFolderError, load_model
from eigenformer.outputs import Outputs
from eigenformer.reporting import Reporter
from eigenformer.training.evaluation import trained_on
from eigenformer.training.features import featurizer_of, unseen_atoms
from eigenformer.training.loading import load_data
from eigenformer.training.module import read_targets
from eigenformer.training.prediction import in_units

MOST_WEIGHTS = 20_000_000
"""Above this many attention weights a page is too heavy to open."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What there is to see of one graph.

    Args:
        model: What to call the model.
        subject: The graph, its spectrum and its drawing.
        outputs: What is predicted.
        prediction: ``[1, columns]``, or ``[n, columns]`` for a node task: numbers in the user's
            units, or probabilities.
        target: The truth in the same rows, NaN where it is not known; ``[rows]`` of classes,
            negative where not known; None where nothing is known.
        attention: ``[layers, heads, n, n]``; row i says where node i looks.
        filters: What the heads do with the spectrum.
        unknown: The nodes whose type the model's vocabulary does not have.
    """

    model: str
    subject: Subject
    outputs: Outputs
    prediction: np.ndarray
    target: np.ndarray | None
    attention: np.ndarray
    filters: Filters
    unknown: tuple[int, ...] = ()


def explain(
    path: str | Path,
    source: str,
    index: int | None = None,
    raw_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    report: Reporter | None = None,
) -> Explanation:
    """What a trained model makes of one graph.

    Args:
        path: A run folder, or any folder with a model.
        source: A SMILES, a path to graphs in any form, a prepared benchmark's name, or ``train``,
            ``val`` or ``test`` for the model's own data.
        index: Which graph of those (default: the first).
        raw_dir: As in :func:`load_data`, with the rest.
        cache_dir: The same.
        report: The same.
    """
    model, card = load_model(path)
    if card.outputs is None or card.data is None:
        raise ModelFolderError(f"{path}: the model does not say what it predicts")
    if source in SPLITS:
        subject = _own_graph(Path(path), card, source, index or 0, raw_dir, cache_dir, report)
    else:
        features, k = featurizer_of(card.data), card.data.frequencies
        sources = Sources.resolve(raw_dir, cache_dir)
        subject = find_subject(source, index, features, k, card.data.undirected, sources)
    weights = card.architecture.layers * card.architecture.heads * len(subject.drawing) ** 2
    if weights > MOST_WEIGHTS:
        raise DataError(
            f"{subject.name}: {len(subject.drawing)} nodes have {weights} attention weights in "
            f"{card.architecture.layers} layers of {card.architecture.heads} heads, too many for "
            f"a page; at most {MOST_WEIGHTS} can be shown"
        )
    try:
        seen = attention_of(model, subject.data)
    except ValueError as error:
        raise DataError(f"the model was not trained on such graphs: {error}") from None
    return Explanation(
        Path(path).resolve().name,
        subject,
        card.outputs,
        in_units(card.outputs, seen.prediction).numpy(),
        _target(card.outputs, subject.data, len(seen.prediction)),
        seen.weights.numpy(),
        learned_filters(model),
        unseen_atoms(card.data, subject.data.x),
    )


def _own_graph(
    path: Path,
    card: ModelCard,
    split: str,
    index: int,
    raw_dir: str | Path | None,
    cache_dir: str | Path | None,
    report: Reporter | None,
) -> Subject:
    config = trained_on(path, card)
    data = load_data(config, raw_dir, cache_dir, report=report)
    graphs = data.splits[split]
    if not 0 <= index < len(graphs):
        raise DataError(f"graph {index} of '{split}': there are {len(graphs)}, counted from 0")
    subject = graph_of(data.archive, int(graphs[index]), config.frequencies)
    if data.archive.names is not None:
        return subject
    return Subject(f"{data.name}, {split} graph {index}", subject.data, subject.drawing)


def _target(outputs: Outputs, data: Data, rows: int) -> np.ndarray | None:
    """The truth, where the graph carries it in the form that the model was trained with."""
    if data.get("y") is None:
        return None
    columns = 1 if outputs.kind == "multiclass" else outputs.num_outputs
    if not isinstance(data.y, torch.Tensor) or data.y.numel() != rows * columns:
        return None
    return read_targets(outputs, data).numpy()
