from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.data import GraphArchive
from eigenformer.data.statistics import is_directed


def archive(*edge_lists):
    return GraphArchive.from_data_list(
        Data(edge_index=torch.tensor(edges).view(-1, 2).t(), num_nodes=4) for edges in edge_lists
    )


@pytest.mark.parametrize("cells", [1, 16, 1 << 25])
def test_directed(cells, monkeypatch):
    monkeypatch.setattr("eigenformer.data.statistics._CELLS", cells)
    assert not is_directed(archive([[0, 1], [1, 0], [2, 2]], [[0, 3], [3, 0]]))
    assert is_directed(archive([[0, 1], [1, 0]], [[0, 3], [3, 0], [1, 2]]))
    # The reverse in another graph does not count.
    assert is_directed(archive([[0, 1]], [[1, 0]]))


def test_counts():
    counts = archive([[0, 1], [1, 0]], []).statistics
    assert (counts.graphs, counts.nodes, counts.edges) == (2, 8, 2)
    assert (counts.mean_nodes, counts.mean_edges, counts.max_nodes, counts.pairs) == (4, 1, 4, 32)
