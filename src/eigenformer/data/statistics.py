"""Statistics of a set of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from eigenformer.data.archive import GraphArchive

# Number of node pairs per block.
_CELLS = 1 << 25


@dataclass(frozen=True)
class Statistics:
    """Counts of a set of graphs.

    Args:
        graphs: Number of graphs.
        nodes: Total number of nodes.
        edges: Total number of directed edges; an undirected edge counts twice.
        max_nodes: Number of nodes of the largest graph.
        pairs: Σn², the size of all eigenvectors and the cost of attention.
        directed: Whether any edge lacks its reverse.
        splits: Number of graphs in train, val and test.
    """

    graphs: int
    nodes: int
    edges: int
    max_nodes: int
    pairs: int
    directed: bool
    splits: tuple[int, ...]

    @property
    def mean_nodes(self) -> float:
        return self.nodes / max(self.graphs, 1)

    @property
    def mean_edges(self) -> float:
        """Mean number of directed edges per graph."""
        return self.edges / max(self.graphs, 1)


def statistics(archive: GraphArchive) -> Statistics:
    """Computes the statistics of an archive."""
    sizes = archive.num_nodes
    return Statistics(
        graphs=len(archive),
        nodes=int(sizes.sum()),
        edges=int(archive.edge_offsets[-1]),
        max_nodes=int(sizes.max(initial=0)),
        pairs=int((sizes**2).sum()),
        directed=is_directed(archive),
        splits=tuple(int((archive.split == place).sum()) for place in range(3)),
    )


def is_directed(archive: GraphArchive) -> bool:
    """Returns whether any edge lacks its reverse.

    Checks the graphs in blocks, and stops at the first block with such an edge.
    """
    width = int(archive.num_nodes.max(initial=1))
    step = max(1, _CELLS // width**2)
    for start in range(0, len(archive), step):
        end = min(start + step, len(archive))
        rows = slice(archive.edge_offsets[start], archive.edge_offsets[end])
        source, target = archive.edge_index[:, rows].astype(np.int64)
        graph = np.repeat(np.arange(end - start), archive.num_edges[start:end])
        forward = (graph * width + source) * width + target
        backward = (graph * width + target) * width + source
        if width**2 > _CELLS:  # one large graph: sort its edges instead of marking its pairs
            missing = not np.isin(backward, forward).all()
        else:
            marked = np.zeros((end - start) * width**2, dtype=bool)
            marked[forward] = True
            missing = not marked[backward].all()
        if missing:
            return True
    return False
