"""The predictions for graphs, or the reasons why there are none, as cells of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from eigenformer.data.archive import GraphArchive
from eigenformer.models.ensemble import Ensemble
from eigenformer.targets import Target
from eigenformer.training.found import Found, find_each
from eigenformer.training.output import Rows, TextPiece, by_node, counted

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel


# Pairs of nodes in a batch of large graphs: some backends keep tensors of all pairs.
_PAIRS = 1 << 20


@dataclass(frozen=True, eq=False)
class PredictionForm:
    """The columns of a prediction.

    Args:
        target: What is predicted.
        spreads: Whether there are columns with the spread of an ensemble.
        bounds: The bounds of intervals; None for no intervals.
        novelty: Whether there is a column with the novelty.
    """

    target: Target
    spreads: bool
    bounds: np.ndarray | None
    novelty: bool = False

    @classmethod
    def of(cls, trained: TrainedModel, interval: float | None, novelty: bool) -> PredictionForm:
        """Returns the columns for a model, with intervals of this level if there is one."""
        bounds = None if interval is None else trained.bounds(interval)
        if novelty:
            trained.check_reference()
        return cls(trained.target, isinstance(trained.model, Ensemble), bounds, novelty)

    def header(self) -> list[str]:
        """Returns the names of the columns, without that of the reason."""
        nodes = ["node"] if self.target.of_nodes else []
        return [*nodes, *self._names()]

    def key(self) -> list[object]:
        """Returns what the predictions depend on beside the model, the table and the columns."""
        return [None if self.bounds is None else self.bounds.tolist()]

    def each(self, trained: TrainedModel, archive: GraphArchive) -> list[Found]:
        """Returns the prediction for each graph, or the reason why it has none."""

        def compute(part: GraphArchive) -> tuple[Tensor, Tensor | None]:
            predicted = trained.predictions(part, _batch_size(part))
            return predicted.values, predicted.spread

        sizes = self.target.rows(archive.num_nodes.tolist())
        found = find_each(compute, archive, sizes, "prediction")
        if not self.novelty:
            return found
        good = [graph for graph, part in enumerate(found) if not part.reason]
        values = trained.novelty(archive.subset(good)) if good else ()
        for graph, value in zip(good, values, strict=True):
            found[graph] = replace(found[graph], novelty=float(value))
        return found

    def piece(
        self, rows: Rows, found: Sequence[Found], names: Sequence[Sequence[str]] | None = None
    ) -> TextPiece:
        """Returns rows with their predictions, one per graph or one per node.

        Args:
            rows: The cells of each graph.
            found: The predictions.
            names: The names of the nodes of each graph (default: their numbers).
        """
        if self.target.of_nodes:
            nodes = by_node(rows, found, names)
            complete = [[*cells, *self._cells(part, node)] for cells, part, node in nodes]
        else:
            pairs = zip(rows, found, strict=True)
            complete = [[*cells, *self._cells(part)] for cells, part in pairs]
        return TextPiece(complete, counted(found))

    def values(self, found: Found) -> dict[str, float | str] | None:
        """Returns the cells of these columns as numbers and words; None without a prediction."""
        if found.reason:
            return None
        cells = zip(self.header(), self._cells(found), strict=False)  # the reason is left out
        words = self.target.worded
        return {name: cell if name in words else float(cell) for name, cell in cells}

    def _names(self) -> list[str]:
        names = [f"spread_{name}" for name in self.target.column_names] if self.spreads else []
        ends = [] if self.bounds is None else self.target.interval_header()
        return [*self.target.header(), *names, *ends, *(["novelty"] if self.novelty else [])]

    def _cells(self, found: Found, node: int = 0) -> list[str]:
        """Returns the cells of these columns and of the reason."""
        if found.reason:
            return [*[""] * len(self._names()), found.reason]
        values = found.values[node]
        spread = [] if found.spread is None else [str(value) for value in found.spread[node]]
        ends = [] if self.bounds is None else self.target.interval_cells(values, self.bounds)
        new = [f"{found.novelty:.4g}"] if self.novelty else []
        return [*self.target.cells(values), *spread[: self.target.num_outputs], *ends, *new, ""]


def _batch_size(archive: GraphArchive) -> int:
    """Returns how many of these graphs to predict for together: 256 small ones, 64 large ones."""
    largest = int(archive.num_nodes.max(initial=1))
    return min(max(_PAIRS // largest**2, 64), 256)
