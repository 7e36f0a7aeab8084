"""How wrong a model is about each graph, and about which it is wrong most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eigenformer.data.batching import GraphDataset
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.outputs import Outputs
from eigenformer.training.evaluation import seeded_batches
from eigenformer.training.modes import evaluation_mode
from eigenformer.training.module import read_targets
from eigenformer.training.predicting import in_units


@dataclass(frozen=True, eq=False)
class GraphErrors:
    """Predictions and truth of a set of graphs.

    Args:
        predictions: Of each graph: ``[1, columns]``, or ``[n, columns]`` for a node task, in the
            user's units or as probabilities.
        targets: Of each graph, in the same rows, as :func:`read_targets` gives them.
        errors: ``[graphs]``: of numbers the mean absolute error; else the mean cross-entropy, in
            nats. NaN where no truth is known.
    """

    predictions: tuple[np.ndarray, ...]
    targets: tuple[np.ndarray, ...]
    errors: np.ndarray

    def worst(self, count: int) -> list[int]:
        """The graphs with the largest errors, the largest first."""
        known = np.where(np.isnan(self.errors), -np.inf, self.errors)
        order = np.argsort(-known, kind="stable")[:count]
        return [int(graph) for graph in order if np.isfinite(known[graph])]


@torch.no_grad()
def graph_errors(
    model: Eigenformer, dataset: GraphDataset, outputs: Outputs, batch_size: int = 64
) -> GraphErrors:
    """What a model says about each graph, and how far that is from the truth."""
    predictions: list[Tensor] = []
    targets: list[Tensor] = []
    with evaluation_mode(model):
        for batch, _ in seeded_batches(dataset, batch_size):
            sizes = [1] * batch.num_graphs
            if outputs.level == "node":
                sizes = batch.ptr.diff().tolist()
            predictions += in_units(outputs, model(batch)).split(sizes)
            targets += read_targets(outputs, batch).split(sizes)
    pairs = zip(predictions, targets, strict=True)
    return GraphErrors(
        tuple(prediction.numpy() for prediction in predictions),
        tuple(target.numpy() for target in targets),
        np.array([_error(outputs, prediction, target) for prediction, target in pairs]),
    )


def wrong_nodes(outputs: Outputs, prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The nodes whose class or label is not the predicted one; none where numbers are predicted."""
    if outputs.level != "node" or outputs.kind == "regression":
        return np.zeros(0, dtype=np.int64)
    if outputs.kind == "multiclass":
        return np.flatnonzero((target >= 0) & (prediction.argmax(1) != target))
    return np.flatnonzero((~np.isnan(target) & ((prediction > 0.5) != (target > 0.5))).any(1))


def _error(outputs: Outputs, prediction: Tensor, target: Tensor) -> float:
    if outputs.kind == "multiclass":
        known = target >= 0
        chosen = prediction[known].gather(1, target[known][:, None])
        return float(-chosen.clamp(min=1e-12).log().mean())
    known = ~target.isnan()
    prediction, target = prediction[known], target[known]
    if outputs.kind == "regression":
        return float((prediction - target).abs().mean())
    right = torch.where(target > 0.5, prediction, 1 - prediction)
    return float(-right.clamp(min=1e-12).log().mean())
