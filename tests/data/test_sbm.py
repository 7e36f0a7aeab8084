from __future__ import annotations

import io
import math
import zipfile

import numpy as np
import pytest
import torch

from eigenformer.data import BENCHMARKS, DataError, sbm
from tests.data.samples import equal_archives


@pytest.mark.parametrize("generate", [sbm.pattern, sbm.cluster])
def test_the_seed_decides_and_a_smaller_set_is_the_beginning(generate):
    first, again = generate((20, 3, 3), seed=5), generate((20, 3, 3), seed=5)
    assert equal_archives(first, again)
    assert not equal_archives(first, generate((20, 3, 3), seed=6))
    smaller = generate((4, 1, 1), seed=5)
    for index, place in enumerate([0, 1, 2, 3, 20, 23]):
        assert torch.equal(smaller[index].edge_index, first[place].edge_index)
        assert torch.equal(smaller[index].x, first[place].x)


def test_the_splits_are_different_graphs():
    archive = sbm.cluster((2, 2, 2))
    edges = {tuple(graph.edge_index.flatten().tolist()) for graph in archive}
    assert len(edges) == 6


def test_the_form_of_a_pattern_graph():
    for graph in sbm.pattern((120, 1, 1)):
        assert graph.x.shape == (graph.num_nodes, 3)
        assert (graph.x.sum(1) == 1).all()
        assert graph.y.dtype == torch.int64
        assert 5 <= graph.y.sum() <= 34
        assert 30 <= graph.num_nodes <= 204
        assert not (graph.edge_index[0] == graph.edge_index[1]).any()


def pattern_of(graph):
    """Node types of the pattern, as a multiset, and the number of edges within it."""
    inside = graph.y.bool()
    edges = inside[graph.edge_index[0]] & inside[graph.edge_index[1]]
    return sorted(graph.x[inside].argmax(1).tolist()), int(edges.sum()) // 2


def test_one_hundred_patterns_return_in_every_split():
    archive = sbm.pattern((101, 101, 1))
    found = [pattern_of(graph) for graph in archive]
    assert found[0] == found[100] == found[101] == found[201] == found[202]
    assert found[1] == found[102]
    assert len({str(p) for p in found[:100]}) > 95


def test_the_probabilities_of_pattern():
    within = between = joined = 0.0
    pairs = np.zeros(3)
    for graph in sbm.pattern((60, 1, 1)):
        inside = graph.y.bool()
        n, extra = int((~inside).sum()), int(inside.sum())
        source, target = graph.edge_index
        across = int((inside[source] != inside[target]).sum()) / 2
        among = int((inside[source] & inside[target]).sum()) / 2
        outside = graph.edge_index.size(1) / 2 - across - among
        within, between, joined = within + among, between + outside, joined + across
        pairs += [math.comb(extra, 2), math.comb(n, 2), n * extra]
    assert abs(within / pairs[0] - 0.5) < 0.02
    assert abs(joined / pairs[2] - 0.5) < 0.01
    # Five communities: about a fifth of the pairs outside are within one.
    assert 0.36 < between / pairs[1] < 0.41


def test_the_form_of_a_cluster_graph():
    for graph in sbm.cluster((60, 1, 1)):
        assert graph.x.shape == (graph.num_nodes, 7)
        types, labels = graph.x.argmax(1), graph.y
        for community in range(6):
            (node,) = (types == community + 1).nonzero().flatten().tolist()
            assert labels[node] == community
        assert (types > 0).sum() == 6
        sizes = labels.bincount(minlength=6)
        assert 5 <= sizes.min() <= sizes.max() <= 34


def test_the_probabilities_of_cluster():
    within = between = within_pairs = between_pairs = 0
    for graph in sbm.cluster((60, 1, 1)):
        same = graph.y[graph.edge_index[0]] == graph.y[graph.edge_index[1]]
        inside = sum(math.comb(int(s), 2) for s in graph.y.bincount())
        within += int(same.sum()) // 2
        between += int((~same).sum()) // 2
        within_pairs += inside
        between_pairs += math.comb(graph.num_nodes, 2) - inside
    assert abs(within / within_pairs - 0.55) < 0.01
    assert abs(between / between_pairs - 0.25) < 0.01


def test_node_order_tells_nothing():
    """Labels are shuffled: a label's mean place is in the middle."""
    places = [
        float((graph.y == 1).nonzero().float().mean() / graph.num_nodes)
        for graph in sbm.pattern((100, 1, 1))
    ]
    assert abs(np.mean(places) - 0.5) < 0.03


def test_sizes_in_proportion():
    assert sbm.scaled_sizes(sbm.PATTERN_SIZES, None) == sbm.PATTERN_SIZES
    assert sbm.scaled_sizes(sbm.PATTERN_SIZES, 140) == (100, 20, 20)
    assert sbm.scaled_sizes(sbm.CLUSTER_SIZES, 3) == (1, 1, 1)
    with pytest.raises(DataError, match="at least 3"):
        sbm.scaled_sizes(sbm.CLUSTER_SIZES, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pattern", "cluster"])
def test_the_whole_benchmark_agrees_with_its_recipe(name):
    archive = {"pattern": sbm.pattern, "cluster": sbm.cluster}[name]()
    assert BENCHMARKS[name].differences(archive.statistics) == []


def test_what_the_recipe_gives_in_closed_form():
    sizes = np.arange(5, 35)
    mean, pairs = sizes.mean(), (sizes * (sizes - 1) / 2).mean()
    assert 6 * mean == BENCHMARKS["pattern"].expected().nodes
    edges = 5 * pairs * 0.5 + 10 * mean**2 * 0.35 + pairs * 0.5 + 5 * mean * mean * 0.5
    assert abs(edges - BENCHMARKS["pattern"].expected().edges) < 0.5
    # The spread over draws of the 100 pattern sizes, and of all communities.
    inner = sizes * (sizes - 1) / 2 * 0.5 + 5 * mean * sizes * 0.5
    error = math.sqrt(inner.var() / 100 + (28.0**2 * 5 * sizes.var()) / 14_000)
    assert 3 * error == pytest.approx(BENCHMARKS["pattern"].expected().edge_tolerance, rel=0.05)
    error = math.sqrt(sizes.var() / 100 + 5 * sizes.var() / 14_000)
    assert 3 * error == pytest.approx(BENCHMARKS["pattern"].expected().node_tolerance, rel=0.01)


@pytest.mark.parametrize("one_hot", [True, False])
def test_the_official_files(tmp_path, one_hot):
    types = torch.tensor([0, 2, 1])
    graph = {
        "x": torch.eye(3)[types] if one_hot else types,
        "edge_index": torch.tensor([[0, 1], [1, 0]]),
        "edge_attr": torch.ones(2),
        "y": torch.tensor([0, 1, 1]),
    }
    buffer = io.BytesIO()
    torch.save([[graph], [graph], [graph, graph]], buffer)
    file = tmp_path / "PATTERN_v2.zip"
    with zipfile.ZipFile(file, "w") as archive_file:
        archive_file.writestr("PATTERN_v2.pt", buffer.getvalue())
    archive = sbm.build_official("pattern", file)
    assert archive.statistics.splits == (1, 1, 2)
    assert torch.equal(archive[3].x, torch.eye(3)[types])
    assert archive[3].y.tolist() == [0, 1, 1]
