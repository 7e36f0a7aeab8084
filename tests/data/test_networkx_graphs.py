"""networkx graphs: attributes keep their names, and what cannot be used is named."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from eigenformer.cli import main
from eigenformer.data import DataError, GraphArchive
from tests.training.samples import SMALL


def _path(
    nodes: dict[Any, Any] | None = None,
    edges: dict[Any, Any] | None = None,
    graph: dict[Any, Any] | None = None,
    size: int = 3,
) -> nx.Graph:
    made = nx.path_graph(size)
    for name, value in (nodes or {}).items():
        nx.set_node_attributes(made, dict.fromkeys(made, value), name)
    for name, value in (edges or {}).items():
        nx.set_edge_attributes(made, dict.fromkeys(made.edges, value), name)
    made.graph.update(graph or {})
    return made


def test_other_names_in_another_graph_are_an_error():
    """The columns of ``x`` would mean something else in each graph."""
    one, other = _path({"age": 1.0, "b": 2.0}), _path({"age": 1.0, "c": 7.0})
    with pytest.raises(
        DataError, match="graph 1: its nodes have the attributes age, c, but those "
    ):
        GraphArchive.from_networkx([one, other])
    one, other = _path({}, {"w": 2.0}), _path({}, {"v": 2.0})
    with pytest.raises(
        DataError, match="graph 2: its edges have .* v, but those of graph 1 have w"
    ):
        GraphArchive.from_networkx([nx.empty_graph(1), one, other])


def test_names_of_columns_are_kept(tmp_path):
    graph = _path({"b": [1.0, 2.0], "a": 0.5}, {"w": 3.0})
    archive = GraphArchive.from_networkx([graph], meta={"origin": {}}).save(tmp_path / "a")
    assert archive.meta["columns"] == {"x": ["a", "b[0]", "b[1]"], "edge_attr": ["w"]}
    assert archive[0].x.tolist() == [[0.5, 1.0, 2.0]] * 3


def test_predict_compares_the_names(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    graphs = [_path({"age": i / 7, "height": i / 3}, graph={"y": i / 2}) for i in range(20)]
    GraphArchive.from_networkx(graphs).save(tmp_path / "a")
    GraphArchive.from_networkx([_path({"foo": 1.0, "bar": 2.0})]).save(tmp_path / "b")
    run, out = str(tmp_path / "run"), str(tmp_path / "p.csv")
    assert main(["train", str(tmp_path / "a"), "--out", run, *SMALL, "--epochs", "1"]) == 0
    assert main(["predict", run, str(tmp_path / "b"), "--out", out]) == 2
    assert "Missing: age, height; unknown: bar, foo" in capsys.readouterr().err
    assert main(["predict", run, str(tmp_path / "a"), "--out", out]) == 0


@pytest.mark.parametrize("first", [0, 1])
def test_a_graph_without_edges_among_weighted_ones(first):
    graphs = [_path({"a": 1.0}, {"w": 2.0}), _path({"a": 1.0}, size=1)]
    archive = GraphArchive.from_networkx([graphs[first], graphs[1 - first]])
    assert archive[1 - first].edge_attr.shape == (0, 1)
    assert archive[first].edge_attr.tolist() == [[2.0]] * 4


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (_path({"a": None}), "'a' holds None"),
        (_path({"a": {"b": 1}}), "'a' holds a dict"),
        (_path({"a": {1, 2}}), "'a' holds a set"),
        (_path({"a": 2**63}), "'a' holds 9223372036854775808, which does not fit into 64 bits"),
        (_path({"a": 1e39}), r"'a' holds 1e\+39, which exceeds single precision, at most 3.4e38"),
        (_path({"a": "red"}), "'a' holds text, such as 'red'"),
        (_path({"a": np.array(["red", "blue"])}), "'a' holds text, such as 'red'"),
        (_path({}, {"a": None}), "'a' holds None"),
        (_path({5: 1.0}), "an attribute of nodes is named 5, which is not text"),
        (_path({}, {(1, 2): 1.0}), r"an attribute of edges is named \(1, 2\)"),
        (_path({"a": 1.0}, graph={7: 1.0}), "an attribute of the graph is named 7"),
        (_path({"x": 1.0, "edge_index": 1.0}), "nodes have an attribute 'edge_index', a name that"),
        (_path({"a": 1.0}, graph={"num_nodes": 77}), "has an attribute 'num_nodes', a name that"),
    ],
)
def test_what_an_attribute_holds_instead_of_numbers(graph, reason):
    with pytest.raises(DataError, match=f"graph 0: {reason}"):
        GraphArchive.from_networkx([graph])


def test_lists_of_different_lengths():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: [1.0], 1: [1.0, 2.0]}, "a")
    with pytest.raises(DataError, match="graph 0: 'a' is a list of different lengths"):
        GraphArchive.from_networkx([graph])


def test_names_of_pyg_are_columns_like_others():
    archive = GraphArchive.from_networkx([_path({"edge_index": 1.0, "num_nodes": 2.0})])
    assert archive.meta["columns"] == {"x": ["edge_index", "num_nodes"]}
    assert archive[0].x.tolist() == [[1.0, 2.0]] * 3
    assert archive[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_tensors_and_arrays_and_multigraphs():
    graph = nx.MultiGraph(_path({"a": torch.ones(2), "b": np.float32(0.5)}, {"w": np.ones(2)}))
    archive = GraphArchive.from_networkx([graph])
    assert archive[0].x.tolist() == [[1.0, 1.0, 0.5]] * 3
    assert archive[0].edge_attr.shape == (4, 2)


def test_names_that_are_not_utf8():
    graph = nx.relabel_nodes(_path({"a": 1.0}), {0: "\udcff"})
    with pytest.raises(DataError, match=r"node_names: '\\udcff' is not valid UTF-8; rename it"):
        GraphArchive.from_networkx([graph])
