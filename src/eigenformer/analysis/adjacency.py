"""Selects some of many graphs, and returns graphs as matrices."""

from __future__ import annotations

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.fields import packed_rows


def evenly_spaced(count: int, limit: int | None = None) -> np.ndarray:
    """Returns at most ``limit`` evenly spaced indices below ``count`` (default: all)."""
    if limit is not None and limit < 1:
        raise DataError(f"limit: must be at least 1, got {limit}")
    return np.linspace(0, count - 1, min(limit or count, count)).round().astype(np.int64)


def adjacency_matrices(archive: GraphArchive, graphs: np.ndarray, n: int) -> np.ndarray:
    """Returns the adjacency of graphs of n nodes, undirected and simple: ``[graphs, n, n]``."""
    rows, offsets = packed_rows(archive.edge_offsets, graphs)
    source, target = archive.edge_index[:, rows].astype(np.int64)
    graph = np.repeat(np.arange(len(graphs)), np.diff(offsets))
    adjacency = np.zeros((len(graphs), n, n), np.float32)
    adjacency[graph, source, target] = adjacency[graph, target, source] = 1
    adjacency[:, np.arange(n), np.arange(n)] = 0
    return adjacency
