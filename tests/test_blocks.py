"""Graphs sorted by size: views of nodes and pairs, against one graph at a time."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric.transforms import AddRandomWalkPE
from torch_geometric.utils import to_dense_adj

from eigenformer.blocks import (
    BlockAttention,
    Blocks,
    join_nodes,
    join_pairs,
    path_distances,
    walk_probabilities,
)
from tests.graphs import from_networkx, random_batch

SIZES = [5, 3, 5, 1, 3, 8]


@pytest.fixture
def batch():
    return random_batch(SIZES)


@pytest.fixture
def blocks(batch):
    return Blocks.of(SIZES, batch.edge_index)


def test_order_and_views(blocks) -> None:
    assert blocks.shapes == ((1, 1), (2, 3), (2, 5), (1, 8))
    assert blocks.graphs == (3, 1, 4, 0, 2, 5)
    nodes = torch.arange(sum(SIZES))
    assert torch.equal(blocks.order[blocks.inverse], nodes)
    graph = torch.repeat_interleave(torch.arange(6), torch.tensor(SIZES))[blocks.order]
    parts = blocks.nodes(graph[:, None])
    assert [part.shape[:2] for part in parts] == list(blocks.shapes)
    assert all((part == part[:, :1]).all() for part in parts)  # a row is one graph
    assert torch.equal(join_nodes(parts)[:, 0], graph)
    pairs = torch.arange(blocks.num_pairs)
    assert torch.equal(join_pairs(block[..., None] for block in blocks.pairs(pairs))[:, 0], pairs)


def test_edges_are_pairs_of_target_and_source(batch, blocks) -> None:
    flat = torch.zeros(blocks.num_pairs)
    flat[blocks.edge_pair] = 1
    each = {}
    for graph, (found, row) in zip(
        blocks.graphs,
        ((block, row) for block in blocks.pairs(flat) for row in range(len(block))),
        strict=True,
    ):
        each[graph] = found[row]
    for number, data in enumerate(batch.to_data_list()):
        dense = to_dense_adj(data.edge_index, max_num_nodes=SIZES[number])[0].clamp(max=1)
        assert torch.equal(each[number], dense.T)


def one(graph: nx.Graph) -> list[torch.Tensor]:
    data = from_networkx(graph)
    return Blocks.of([len(graph)], data.edge_index).adjacency(torch.float64)


def test_distances_are_those_of_networkx() -> None:
    graph = nx.disjoint_union(nx.lollipop_graph(4, 6), nx.path_graph(3))
    found = path_distances(one(graph), 4).view(len(graph), -1)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    for i in graph:
        for j in graph:
            assert found[i, j] == min(lengths[i].get(j, 99), 5)


def test_walks_start_at_the_identity_and_go_on_as_pygs() -> None:
    graph = nx.gnp_random_graph(9, 0.4, seed=3)
    walks = walk_probabilities(one(graph), 6).view(9, 9, 6)
    assert torch.equal(walks[..., 0], torch.eye(9, dtype=torch.float64))
    loops = AddRandomWalkPE(5, "rwse")(from_networkx(graph)).rwse
    torch.testing.assert_close(walks.diagonal().T[:, 1:].float(), loops)
    connected = walks[..., 1].sum(1) > 0
    torch.testing.assert_close(walks.sum(1)[connected], torch.ones_like(walks.sum(1)[connected]))


@pytest.mark.parametrize("with_factor", [False, True])
def test_attention_is_pytorchs(blocks, with_factor: bool) -> None:
    ours, theirs = BlockAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    nn.init.normal_(ours.in_proj.bias)
    theirs.in_proj_weight.data, theirs.in_proj_bias.data = ours.in_proj.weight, ours.in_proj.bias
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
    x = torch.randn(sum(SIZES), 8)
    biases = [torch.randn(b, 2, n, n) for b, n in blocks.shapes]
    ones = [torch.ones_like(bias) for bias in biases] if with_factor else None
    found = blocks.nodes(ours(x, blocks, biases, ones))
    for out, given, bias in zip(found, blocks.nodes(x), biases, strict=True):
        expected, _ = theirs(given, given, given, attn_mask=bias.flatten(0, 1))
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
