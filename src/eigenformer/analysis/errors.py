"""The error of a model on each graph, and the graphs with the largest errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from eigenformer.data.batching import GraphDataset
from eigenformer.targets import Target
from eigenformer.training.predicting import predict_batches


@dataclass(frozen=True, eq=False)
class GraphErrors:
    """Predictions and truth for a set of graphs.

    Args:
        predictions: The prediction for each graph: ``[1, columns]``, or ``[n, columns]`` for a
            node task, in the user's units or as probabilities.
        targets: The truth of each graph, with the same rows, as returned by :meth:`Target.read`.
        errors: ``[graphs]``, see :meth:`Target.error`. NaN if the truth is not known.
    """

    predictions: tuple[np.ndarray, ...]
    targets: tuple[np.ndarray, ...]
    errors: np.ndarray

    def worst(self, count: int) -> list[int]:
        """Returns the graphs with the largest errors, the largest first."""
        known = np.where(np.isnan(self.errors), -np.inf, self.errors)
        order = np.argsort(-known, kind="stable")[:count]
        return [int(graph) for graph in order if np.isfinite(known[graph])]


def graph_errors(
    model: nn.Module, dataset: GraphDataset, target: Target, batch_size: int = 64
) -> GraphErrors:
    """Returns a model's prediction for each graph and its error."""
    predictions: list[Tensor] = []
    targets: list[Tensor] = []
    for found in predict_batches(model, dataset, batch_size):
        rows = target.rows(found.batch.ptr.diff().tolist())
        predictions += target.in_units(found.output).split(rows)
        targets += target.read(found.batch).split(rows)
    pairs = zip(predictions, targets, strict=True)
    return GraphErrors(
        tuple(prediction.numpy() for prediction in predictions),
        tuple(truth.numpy() for truth in targets),
        np.array([target.error(prediction, truth) for prediction, truth in pairs]),
    )
