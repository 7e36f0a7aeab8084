"""One graph as a trained model sees it: prediction, spectrum, heads, and what contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.analysis.attribution import METHODS, Attribution, check_output, plain_archive
from eigenformer.analysis.filters import Filters, learned_filters
from eigenformer.analysis.graph_view import (
    DEFAULT_FEATURIZER,
    GraphView,
    find_graph,
    view_graph,
    view_molecule,
)
from eigenformer.data.errors import DataError
from eigenformer.data.fields import SPLITS
from eigenformer.data.workspace import Workspace
from eigenformer.models.base import no_spectral_attention
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.nearest import unknown
from eigenformer.targets import Target
from eigenformer.trained_model import TrainedModel
from eigenformer.training.features import unseen_atoms
from eigenformer.training.loading import load_data
from eigenformer.training.predicting import predict_batches

MOST_WEIGHTS = 20_000_000
"""The largest number of attention weights on a page. Larger pages are too heavy to open."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """A model's prediction for one graph, with everything that explains it.

    Args:
        model: The name of the model.
        view: The graph, its spectrum and its drawing.
        target: What is predicted.
        prediction: ``[1, columns]``, or ``[n, columns]`` for a node task: numbers in the user's
            units, or probabilities.
        truth: The true values with the same rows, NaN for unknown ones. For classes ``[rows]``,
            negative for unknown ones. None if nothing is known.
        attention: ``[layers, heads, n, n]``; row i shows where node i looks. None for a network
            without spectrum-aware attention.
        filters: What the heads do with the spectrum; None for such a network.
        unknown: The nodes whose type is missing from the model's vocabulary.
        attributions: What nodes and edges contribute to the prediction, one per method.
    """

    model: str
    view: GraphView
    target: Target
    prediction: np.ndarray
    truth: np.ndarray | None
    attention: np.ndarray | None
    filters: Filters | None
    unknown: tuple[int, ...] = ()
    attributions: tuple[Attribution, ...] = ()


@dataclass(frozen=True, eq=False)
class HeadAttention:
    """A model's prediction for one graph, and the attention of all heads.

    Args:
        prediction: ``[1, out]``, or ``[n, out]`` for a node task; the raw output of the model.
        weights: ``[layers, heads, n, n]``; row i shows where node i looks, and sums to 1.
    """

    prediction: Tensor
    weights: Tensor


def attention_of(model: Eigenformer, data: Data) -> HeadAttention:
    """Returns a model's prediction for a graph and its attention, in evaluation mode."""
    (found,) = predict_batches(model, [data], return_attention=True)
    return HeadAttention(found.output, torch.stack([graphs[0] for graphs in found.attention]))


def explain(
    trained: TrainedModel,
    source: str,
    index: int | None = None,
    workspace: Workspace | None = None,
    attribution: Sequence[str] = (),
    output: str | None = None,
) -> Explanation:
    """Explains a trained model's prediction for one graph.

    A network without spectrum-aware attention is explained by attribution only.

    Args:
        trained: The model.
        source: A SMILES, a path to graphs in any form, a prepared benchmark's name, or ``train``,
            ``val`` or ``test`` for the model's own data.
        index: Which of several graphs (default: the first).
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        attribution: The methods of attribution: ``occlusion``, ``gradients``.
        output: The output that attribution is about (default: the most probable class, or the first
            output).
    """
    workspace, trained = workspace or Workspace.resolve(), trained.alone()
    for method in attribution:
        if method not in METHODS:
            raise ValueError(unknown(f"attribution '{method}'", method, METHODS))
    if output is not None:
        check_output(trained, output)
        if not attribution:
            raise ValueError(f"output '{output}': only for attribution; choose a method of it")
    expected, model = trained.input_format, trained.model
    if not isinstance(model, Eigenformer) and not attribution:
        raise ValueError(
            f"{no_spectral_attention(model)}, or ask what contributes to the prediction with "
            f"--attribution"
        )
    if source in SPLITS:
        view = _own_graph(trained, source, index or 0, workspace)
    else:
        # Only a SMILES needs a featurizer. Features that do not fit raise an error below.
        features = expected.featurizer or DEFAULT_FEATURIZER
        count, undirected = expected.num_frequencies, expected.undirected
        given = (features, count, undirected, workspace, expected.descriptors)
        view = find_graph(source, index, *given)
    return explain_view(trained, view, attribution, output)


def explain_molecule(trained: TrainedModel, smiles: str) -> Explanation:
    """Explains a prediction for a SMILES, which is never taken for a path or a name."""
    expected = trained.input_format
    given = (trained.featurizer, expected.num_frequencies, expected.descriptors, trained.limits)
    return explain_view(trained, view_molecule(smiles, *given))


def explain_view(
    trained: TrainedModel,
    view: GraphView,
    attribution: Sequence[str] = (),
    output: str | None = None,
) -> Explanation:
    """Explains a trained model's prediction for a graph. See :func:`explain`."""
    trained = trained.alone()
    try:
        prediction, attention, filters = _seen(trained, view)
        found = [METHODS[method](trained, view.data, output) for method in attribution]
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"the model was not trained on such graphs: {error}") from None
    return Explanation(
        trained.name,
        view,
        trained.target,
        prediction,
        _truth(trained.target, view.data, len(prediction)),
        attention,
        filters,
        unseen_atoms(trained.input_format, view.data.x),
        tuple(found),
    )


def _seen(
    trained: TrainedModel, view: GraphView
) -> tuple[np.ndarray, np.ndarray | None, Filters | None]:
    """Returns the prediction, and the attention and filters of an Eigenformer."""
    model = trained.model
    if not isinstance(model, Eigenformer):
        return trained.predict(plain_archive(trained, [view.data])).numpy(), None, None
    weights = model.config.layers * model.config.heads * len(view.drawing) ** 2
    if weights > MOST_WEIGHTS:
        raise DataError(
            f"{view.name}: {len(view.drawing)} nodes have {weights} attention weights in "
            f"{model.config.layers} layers of {model.config.heads} heads, too many for "
            f"a page; at most {MOST_WEIGHTS} can be shown"
        )
    seen = attention_of(model, view.data)
    prediction = trained.target.in_units(seen.prediction).numpy()
    return prediction, seen.weights.numpy(), learned_filters(model)


def _own_graph(trained: TrainedModel, split: str, index: int, workspace: Workspace) -> GraphView:
    data = load_data(trained.data, workspace, with_spectra=False)
    graphs = data.splits[split]
    if not 0 <= index < len(graphs):
        raise DataError(f"graph {index}: '{split}' has {len(graphs)} graphs, counted from 0")
    count = trained.input_format.num_frequencies
    view = view_graph(data.archive, int(graphs[index]), count)
    if data.archive.names is not None:
        return view
    return GraphView(f"{data.name}, {split} graph {index}", view.data, view.drawing)


def _truth(target: Target, data: Data, rows: int) -> np.ndarray | None:
    """Returns the truth if the graph has it in the form that the model was trained with."""
    if data.get("y") is None:
        return None
    if not isinstance(data.y, torch.Tensor) or data.y.numel() != rows * target.num_values:
        return None
    return target.read(data).numpy()
