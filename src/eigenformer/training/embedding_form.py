"""The embeddings of graphs or nodes, or the reasons why there are none, as rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from eigenformer.data.archive import GraphArchive
from eigenformer.training.found import Found, find_each
from eigenformer.training.output import Piece, PredictionCounts, Rows, by_node, counted

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel


@dataclass(frozen=True, eq=False)
class Embedded(Piece):
    """Rows with embeddings.

    Args:
        cells: The cells of the input, and the name of the node if there is a row per node.
        values: ``[rows, d]``; NaN in rows without an embedding.
        reasons: Why a row has no embedding; empty if it has one.
        graphs: The number of the graph of each row, within this piece.
        nodes: The number of the node of each row; None if there is a row per graph.
        counts: How many rows of the input these rows stand for.
    """

    cells: Rows
    values: np.ndarray
    reasons: list[str]
    graphs: np.ndarray
    nodes: np.ndarray | None
    counts: PredictionCounts

    def text(self) -> Rows:
        rows = zip(self.cells, self.values, self.reasons, strict=True)
        blank = [""] * self.values.shape[1]
        return [
            [*cells, *(blank if reason else map(str, values)), reason]
            for cells, values, reason in rows
        ]


@dataclass(frozen=True, eq=False)
class EmbeddingForm:
    """The columns of embeddings.

    Args:
        width: The number of channels.
        nodes: Whether there is a row per node instead of one per graph.
    """

    width: int
    nodes: bool

    @classmethod
    def of(cls, trained: TrainedModel, nodes: bool) -> EmbeddingForm:
        """Returns the columns for a model."""
        trained.check_embedding(nodes)
        return cls(trained.model.config.hidden_dim, nodes)

    def header(self) -> list[str]:
        """Returns the names of the columns, without that of the reason."""
        return [*(["node"] if self.nodes else []), *(f"embedding_{i}" for i in range(self.width))]

    def key(self) -> list[object]:
        """Returns what the embeddings depend on beside the model, the table and the columns."""
        return []

    def each(self, trained: TrainedModel, archive: GraphArchive) -> list[Found]:
        """Returns the embeddings of each graph, or the reason why it has none."""

        def compute(part: GraphArchive) -> tuple[Tensor, None]:
            return trained.embed(part, self.nodes), None

        sizes = archive.num_nodes.tolist() if self.nodes else [1] * len(archive)
        return find_each(compute, archive, sizes, "embedding")

    def piece(
        self, rows: Rows, found: Sequence[Found], names: Sequence[Sequence[str]] | None = None
    ) -> Embedded:
        """Returns rows with their embeddings, one per graph or one per node.

        Args:
            rows: The cells of each graph.
            found: The embeddings.
            names: The names of the nodes of each graph (default: their numbers).
        """
        sizes = [max(len(part.values), 1) for part in found]  # a graph without any has a row
        graphs = np.repeat(np.arange(len(found)), sizes)
        values = np.full((len(graphs), self.width), np.nan, np.float32)
        for part, start in zip(found, np.cumsum([0, *sizes]).tolist(), strict=False):
            if not part.reason:
                values[start : start + len(part.values)] = part.values
        reasons = [found[graph].reason for graph in graphs.tolist()]
        if not self.nodes:
            return Embedded(rows, values, reasons, graphs, None, counted(found))
        nodes = list(by_node(rows, found, names))
        cells, numbers = [row for row, _, _ in nodes], np.array([node for _, _, node in nodes])
        return Embedded(cells, values, reasons, graphs, numbers, counted(found))
