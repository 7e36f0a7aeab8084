"""Graphormer's biases against networkx."""

from __future__ import annotations

import itertools

import networkx as nx
import torch
from torch_geometric.data import Batch

from eigenformer.blocks import Blocks, path_distances
from eigenformer.models import build_model
from eigenformer.models.graphormer import resistances
from tests.graphs import from_networkx
from tests.models.test_networks import config


def test_edges_are_averaged_over_all_shortest_paths() -> None:
    graph = nx.cycle_graph(6)
    graph.add_edge(5, 6)
    data = from_networkx(graph)
    model = build_model(config("graphormer", heads=2, path_length=3)).double().eval()
    blocks = Blocks.of([7], data.edge_index)
    adjacency = blocks.adjacency(torch.float64)
    steps = torch.zeros(49, 6).double()
    steps[blocks.edge_pair] = torch.randn(data.num_edges, 6).double()
    distances = path_distances(adjacency, 20)
    (found,) = model._path_means(adjacency, blocks.pairs(distances), blocks.pairs(steps))
    of_step = steps.view(7, 7, 3, 2)
    for i, j in itertools.product(range(7), repeat=2):
        length = nx.shortest_path_length(graph, i, j)
        expected = torch.zeros(2).double()
        if 0 < length <= 3:
            paths = list(nx.all_shortest_paths(graph, i, j))
            for path in paths:
                for t, (p, q) in enumerate(itertools.pairwise(path)):
                    expected += of_step[p, q, t] / (length * len(paths))
        torch.testing.assert_close(found[0, :, i, j], expected)


def test_resistances_are_those_of_networkx() -> None:
    graphs = [nx.lollipop_graph(4, 3), nx.cycle_graph(5), nx.gnp_random_graph(7, 0.6, seed=2)]
    apart = nx.disjoint_union(nx.path_graph(3), nx.empty_graph(1))
    batch = Batch.from_data_list([from_networkx(g, torch.float64) for g in (*graphs, apart)])
    sizes = (7, 5, 7, 4)
    blocks = Blocks.of(sizes, batch.edge_index)
    adjacency = blocks.adjacency(torch.float64)
    found = blocks.pairs(resistances(batch, sizes, adjacency, blocks)[:, 0])
    expected = [nx.resistance_distance(g) for g in graphs]
    for table, matrix in zip(
        (expected[1], expected[0], expected[2]),
        (found[1][0], found[2][0], found[2][1]),
        strict=True,
    ):
        for i, row in table.items():
            for j, value in row.items():
                assert abs(float(matrix[i, j]) - value) < 1e-8
    assert abs(float(found[0][0, 0, 2]) - 2) < 1e-8
    assert (found[0][0, 3, :3] == -1).all()
