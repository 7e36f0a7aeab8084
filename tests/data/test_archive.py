from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data, InMemoryDataset

from eigenformer.data import DataError, Field, GraphArchive, store
from eigenformer.data.errors import DamagedError
from eigenformer.limits import Limits
from tests.data.samples import (
    archives,
    equal_archives,
    random_archive,
    random_graph,
    random_graphs,
)

_NONE = torch.zeros(2, 0, dtype=torch.long)


def again(archive: GraphArchive) -> GraphArchive:
    """archive → PyG → archive."""
    return GraphArchive.from_data_list(
        archive.to_data_list(),
        split=np.asarray(archive.split),
        names=None if archive.names is None else list(archive.names),
        target=archive.target,
        levels={name: field.level for name, field in archive.fields.items()},
        meta=archive.meta,
    )


@settings(max_examples=60, deadline=None)
@given(archive=archives())
def test_round_trip_through_pyg_and_disk(archive, tmp_path_factory):
    assert equal_archives(again(archive), archive)
    saved = archive.save(tmp_path_factory.mktemp("archive") / "graphs")
    assert equal_archives(saved, archive)
    assert equal_archives(GraphArchive.open(saved.path), archive)
    assert equal_archives(again(saved), archive)


@settings(max_examples=30, deadline=None)
@given(archive=archives())
def test_a_subset_holds_the_graphs_it_was_asked_for(archive):
    chosen = [len(archive) - 1, 0]
    part = archive.subset(chosen)
    for graph, index in zip(part, chosen, strict=True):
        assert same(graph, archive[index])


def same(a: Data, b: Data) -> bool:
    return set(a.to_dict()) == set(b.to_dict()) and all(
        torch.equal(value, b[name]) if isinstance(value, torch.Tensor) else value == b[name]
        for name, value in a.to_dict().items()
    )


def test_graphs_come_back_as_they_were():
    graphs = random_graphs(3, 15)
    for given_graph, graph in zip(graphs, random_archive(3, 15), strict=True):
        assert same(given_graph, graph)
        for name, value in given_graph.to_dict().items():
            assert graph[name].dtype == value.dtype, name


def test_equality_sees_every_part():
    archive = random_archive()
    graphs = archive.to_data_list()
    graphs[3].y[0, 1] += 1
    changed = GraphArchive.from_data_list(graphs, split=archive.split, names=archive.names)
    assert not equal_archives(archive, changed)
    assert not equal_archives(archive, archive.with_split(np.zeros(20, np.uint8)))
    assert not equal_archives(archive, archive.with_target(None))
    assert not equal_archives(archive, archive.subset(range(19)))
    assert equal_archives(archive, archive.subset(range(20)))


def test_integers_are_stored_narrow_and_given_back_wide(saved):
    assert saved.fields["x"].values.dtype == np.uint16
    assert saved.edge_index.dtype == np.uint8
    assert saved[0].x.dtype == saved[0].edge_index.dtype == torch.int64


def test_splits(saved):
    parts = [saved.indices(name) for name in ("train", "val", "test")]
    assert sorted(np.concatenate(parts).tolist()) == list(range(40))
    assert saved.statistics.splits == (14, 13, 13)
    with pytest.raises(DataError, match="the nearest is 'val'"):
        saved.indices("valid")


def test_indices_out_of_range(saved):
    assert same(saved[-1], saved[39])
    with pytest.raises(IndexError):
        saved[40]
    assert saved.names[-1] == "graph 39 – é"
    assert list(saved.names[:2]) == ["graph 0 – é", "graph 1 – é"]
    with pytest.raises(IndexError):
        saved.names[40]


def test_inputs_are_not_changed():
    graphs = random_graphs(0, 5)
    before = [{name: value.clone() for name, value in g.to_dict().items()} for g in graphs]
    archive = GraphArchive.from_data_list(graphs)
    archive[0].x.zero_()
    for graph, copy in zip(graphs, before, strict=True):
        assert all(torch.equal(graph[name], value) for name, value in copy.items())
    assert torch.equal(archive[0].x, graphs[0].x)


def test_networkx_graphs():
    graph = nx.path_graph(4)
    nx.set_node_attributes(graph, {i: float(i) for i in graph}, "x")
    nx.set_edge_attributes(graph, 2, "edge_attr")
    graph.graph["y"] = 1.5
    archive = GraphArchive.from_networkx([graph, graph])
    assert archive.fields["y"].level == "graph"
    assert archive[1].edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert archive[1].x.tolist() == [0, 1, 2, 3]
    assert archive[1].edge_attr.tolist() == [2] * 6
    assert archive[1].y.tolist() == [1.5]


def test_what_is_no_networkx_graph():
    one, other = nx.path_graph(3), nx.path_graph(3)
    nx.set_node_attributes(other, {0: 1.0}, "x")
    with pytest.raises(DataError, match="graph 1: Not all nodes contain the same attributes"):
        GraphArchive.from_networkx([one, other])
    with pytest.raises(DataError, match="graph 0: expected a networkx graph, got int"):
        GraphArchive.from_networkx([1])
    nx.set_node_attributes(other, "C", "element")
    del other.nodes[0]["x"]
    with pytest.raises(
        DataError, match="graph 0: 'element' holds text, such as 'C'; expected numbers"
    ):
        GraphArchive.from_networkx([other])


class Few(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_any_pyg_dataset(recwarn):
    graphs = random_graphs(0, 9)
    archive = GraphArchive.from_dataset(Few(graphs[:4]), Few(graphs[4:6]), Few(graphs[6:]))
    assert archive.statistics.splits == (4, 2, 3)
    assert all(same(a, b) for a, b in zip(archive, graphs, strict=True))
    assert len(GraphArchive.from_dataset(Few(graphs))) == 9
    with pytest.raises(DataError, match="one dataset, or 3"):
        GraphArchive.from_dataset(Few(graphs), Few(graphs))


def test_targets_of_nodes_and_of_graphs_are_told_apart():
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng, n, n) for n in (3, 5)]
    assert GraphArchive.from_data_list(graphs).fields["y"].level == "graph"
    for graph in graphs:
        graph.y = torch.zeros(graph.num_nodes, dtype=torch.long)
    assert GraphArchive.from_data_list(graphs).fields["y"].level == "node"
    for graph in graphs:
        graph.y = torch.zeros(7)
    archive = GraphArchive.from_data_list(graphs)
    assert archive.fields["y"].level == "graph"
    assert archive[0].y.shape == (1, 7)


def broken(**changes):
    graphs = random_graphs(5, 3)
    for name, value in changes.items():
        graphs[2][name] = value
    return graphs


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (broken(edge_index=torch.tensor([[0], [99]])), r"graph 2 \('c'\): edge \[0, 99\]"),
        (broken(edge_index=torch.tensor([[-1], [0]])), r"edge \[-1, 0\]"),
        (broken(edge_index=torch.zeros(3, 4).long()), r"shape \(3, 4\)"),
        (broken(x=torch.zeros(1, 3).long()), "'x' has"),
        (broken(y=torch.full((1, 3), torch.inf)), "'y' holds a NaN or an infinite"),
        (broken(y=torch.zeros(1, 2)), r"rows of shape \(2,\)"),
        (broken(y=torch.zeros(1, 3).double()), "'y' is float64, but float32 in graph 0"),
        (broken(edge_index=torch.zeros(2, 1)), "edge_index is float32, expected integers"),
        (broken(x=torch.ones(1, 2).bfloat16()), "'x' is a strided tensor of bfloat16; convert it"),
        (broken(x=torch.eye(2).to_sparse()), "'x' is a sparse_coo tensor of float32; convert it"),
        (broken(extra=torch.zeros(1)), "has attributes"),
        (broken(y="text"), "'y' holds text, such as 'text'"),
        ([Data()], "no nodes"),
        (["text"], "expected a PyG Data"),
    ],
)
def test_bad_graphs_are_named(graphs, message):
    with pytest.raises(DataError, match=message):
        GraphArchive.from_data_list(graphs, names=["a", "b", "c"][: len(graphs)])


def test_half_a_graph_is_named():
    graph = Data(x=torch.ones(2, 1))
    del vars(graph)["_store"]
    graph.__dict__["_store"] = type("Half", (), {})()
    with pytest.raises(DataError, match="graph 0: incomplete PyG Data"):
        GraphArchive.from_data_list([graph])


def test_a_nan_is_a_missing_target_but_no_feature():
    graphs = random_graphs(0, 2)
    graphs[1].y[0, 0] = torch.nan
    assert GraphArchive.from_data_list(graphs)[1].y.isnan().sum() == 1
    graphs[1].edge_attr = torch.full_like(graphs[1].edge_attr, torch.nan)
    assert len(graphs[1].edge_attr)
    with pytest.raises(DataError, match="graph 1: 'edge_attr' holds a NaN"):
        GraphArchive.from_data_list(graphs)


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="names: got 1 for 3 graphs"):
        GraphArchive.from_data_list(random_graphs(0, 3), split=np.zeros(3, np.uint8), names=["a"])
    with pytest.raises(DataError, match="split: 2 entries"):
        GraphArchive.from_data_list(random_graphs(0, 3), split=["train", "val"])
    with pytest.raises(DataError, match="the nearest is 'test'"):
        GraphArchive.from_data_list(random_graphs(0, 1), split=["tset"])
    with pytest.raises(DataError, match="the nearest is 'node'"):
        GraphArchive.from_data_list(random_graphs(0, 1), levels={"y": "nodes"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("edge_label_index", "PyG treats names with"),
        ("face", "PyG treats names with"),
        ("batch_of", "PyG treats names with"),
        ("eigenvalues", "'eigenvalues': is computed by Eigenformer"),
        ("a/b", "expected a name of letters"),
        ("../x", "expected a name of letters"),
    ],
)
def test_names_of_attributes(name, message):
    graphs = random_graphs(0, 2)
    for graph in graphs:
        graph[name] = torch.zeros(graph.num_nodes)
    with pytest.raises(DataError, match=message):
        GraphArchive.from_data_list(graphs)


def test_texts_come_back(tmp_path):
    graphs = random_graphs(0, 3)
    for graph, smiles in zip(graphs, ("C", "", "CCO – é"), strict=True):
        graph.smiles = smiles
    archive = GraphArchive.from_data_list(graphs).save(tmp_path / "texts")
    assert [graph.smiles for graph in archive] == ["C", "", "CCO – é"]
    assert [graph.smiles for graph in archive.subset([2, 0])] == ["CCO – é", "C"]
    assert equal_archives(again(archive), archive)
    graphs[1].smiles = torch.zeros(1)
    with pytest.raises(DataError, match="graph 1: 'smiles' is float32"):
        GraphArchive.from_data_list(graphs)


def parts(**changes):
    """Two graphs of two nodes, with one edge each."""
    values = {
        "node_offsets": np.array([0, 2, 4]),
        "edge_offsets": np.array([0, 1, 2]),
        "edge_index": np.array([[0, 1], [1, 0]]),
        "fields": {"x": Field("node", np.ones((4, 1), np.float32), np.dtype(np.float32))},
        "names": ["a", "b"],
    }
    return {**values, **changes}


def field(values, dtype=None, level="node"):
    values = np.asarray(values)
    return {"x": Field(level, values, np.dtype(dtype or values.dtype))}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_offsets": np.array([0, 5, 4])}, "node_offsets: graph 1 would have -1 rows"),
        ({"node_offsets": np.array([0, 0, 4])}, "node_offsets: graph 0 would have 0 rows"),
        ({"node_offsets": np.array([1, 2, 4])}, "node_offsets: expected a 1-D array"),
        ({"edge_offsets": np.array([0, 3, 2])}, "edge_offsets: graph 1 would have -1 rows"),
        ({"edge_offsets": np.array([0.0, 1, 2])}, "edge_offsets: expected a 1-D array"),
        ({"edge_offsets": np.array([0, 2])}, "edge_offsets: for 1 graphs, but node_offsets: for 2"),
        (
            {"edge_index": np.array([[0, 1.5], [1, 0]])},
            "expected integers, got float64",
        ),
        ({"edge_index": np.zeros((2, 3), int)}, r"edge_index: got shape \(2, 3\)"),
        ({"edge_index": np.array([[0, 1], [1, 2]])}, r"graph 1 \('b'\): edge \[1, 2\]"),
        ({"edge_index": np.array([[-1, 1], [1, 0]])}, r"graph 0 \('a'\): edge \[-1, 1\]"),
        ({"fields": field([[1.0], [2], [np.nan], [3]])}, r"graph 1 \('b'\): 'x' holds a NaN"),
        ({"fields": field([1, 2, 3])}, "x: 3 rows for 4 nodes"),
        ({"fields": field([1.5, 2, 3, 4], np.int64)}, "float64 cannot be read as int64"),
        ({"fields": field([1j, 2, 3, 4])}, "complex128 cannot be stored"),
        ({"fields": field(np.ones(4, ">f4"))}, ">f4 cannot be stored"),
        ({"fields": field(["a", "b", "c", "d"])}, "<U1 cannot be stored"),
        ({"names": ["a", 2]}, "names: expected text, got 2"),
        ({"split": np.array([0, 7])}, "split: got 7, expected 0, 1, 2, or 255"),
        ({"split": np.array([0.5, 1])}, "split '0.5': unknown"),
        ({"meta": {"made": object()}}, "meta: cannot be written as JSON"),
    ],
)
def test_the_door_of_an_archive(changes, message):
    GraphArchive(**parts())
    with pytest.raises(DataError, match=message):
        GraphArchive(**parts(**changes))


def test_what_the_door_puts_right(tmp_path):
    meta = {"mean": np.float32(0.5), "sizes": np.arange(2), "count": np.int64(3)}
    archive = GraphArchive(**parts(split=np.array(["train", "test"]), meta=meta))
    assert archive.split.tolist() == [0, 2]
    saved = archive.save(tmp_path / "a")
    assert saved.meta == {"mean": 0.5, "sizes": [0, 1], "count": 3}
    assert equal_archives(saved, archive)


def test_places_are_checked(saved):
    assert saved.subset([-1])[0].y.equal(saved[39].y)
    mask = np.arange(40) == 7
    assert saved.subset(mask).names == [saved.names[7]]
    with pytest.raises(IndexError, match="graph index 40 is out of range for 40 graphs"):
        saved.subset([0, 40])
    with pytest.raises(DataError, match="1-D array of integers"):
        saved.subset([0.5])
    with pytest.raises(DataError, match="a mask of shape"):
        saved.subset(mask[:-1])


def test_a_manifest_of_something_else_is_damage(saved):
    file = saved.path / "manifest.json"
    content = json.loads(file.read_text())
    del content["meta"]["fields"]["x"]["level"], content["sha256"]
    file.write_text(json.dumps({**content, "sha256": store._digest(content)}))
    with pytest.raises(DamagedError, match="not an archive: fields.x.level is missing"):
        GraphArchive.open(saved.path)


def test_attributes_of_networkx_become_features():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 5, 1: 6, 2: 7}, "size")
    nx.set_node_attributes(graph, {0: 0.5, 1: 1.5, 2: 2.5}, "age")
    nx.set_edge_attributes(graph, 3.0, "size")
    graph.graph["y"] = 1.0
    archive = GraphArchive.from_networkx([graph])
    assert set(archive.fields) == {"x", "edge_attr", "y"}
    assert archive[0].x.tolist() == [[0.5, 5.0], [1.5, 6.0], [2.5, 7.0]]  # age, size
    assert archive[0].edge_attr.tolist() == [[3.0]] * 4


def test_an_archive_of_a_stranger_is_checked_edge_by_edge(tmp_path):
    GraphArchive.from_networkx([nx.path_graph(3)]).save(tmp_path / "a")
    file, manifest = tmp_path / "a" / "edge_index.npy", tmp_path / "a" / store.MANIFEST
    edges = np.load(file)
    edges[0, 0] = 7
    np.save(file, edges)
    content = json.loads(manifest.read_text())
    del content["sha256"]
    content["arrays"]["edge_index"]["sha256"] = store.file_digest(file)
    manifest.write_text(json.dumps({**content, "sha256": store._digest(content)}))
    GraphArchive.open(tmp_path / "a", verify=True)  # all checksums are right
    with pytest.raises(DamagedError, match="leads to a missing node"):
        GraphArchive.open(tmp_path / "a", check=True)


def test_names_of_networkx_nodes():
    archive = GraphArchive.from_networkx([nx.path_graph(["a", "b"]), nx.path_graph(3)])
    assert archive.node_names == ["a", "b", "0", "1", "2"]
    assert GraphArchive.from_networkx([nx.path_graph(3)]).node_names is None


@pytest.mark.parametrize("meta", [{"columns": 5}, {"rejected": [1]}, {"origin": {"inputs": 3}}])
def test_metadata_of_the_package_has_its_form(meta):
    archive = GraphArchive.from_networkx([nx.path_graph(3)])
    with pytest.raises(DataError, match=r"meta\.\w+"):
        archive._with(meta=meta)


def test_nodes_per_graph_are_limited(tmp_path):
    """A few bytes can claim any number of nodes."""
    huge = Data(edge_index=_NONE, num_nodes=2**62, y=torch.ones(1))
    message = "4,611,686,018,427,387,904 exceeds the limit of 1,000,000"
    with pytest.raises(DataError, match=f"graph 1: nodes: {message}"):
        GraphArchive.from_data_list([Data(edge_index=_NONE, num_nodes=2, y=huge.y), huge])
    raised = Limits(nodes=2**62)
    with pytest.raises(DataError, match="9,223,372,036,854,775,808 nodes in all graphs do not fit"):
        GraphArchive.from_data_list([huge, huge], limits=raised)
    GraphArchive.from_data_list([huge], limits=raised).save(tmp_path / "a")
    with pytest.raises(DataError, match=f"a: nodes of a graph: {message}"):
        GraphArchive.open(tmp_path / "a", check=True)
    assert GraphArchive.open(tmp_path / "a", check=True, limits=raised).num_nodes == [2**62]


def test_features_beyond_single_precision_are_told():
    graph = Data(x=torch.tensor([[1.0], [-1e39]], dtype=torch.float64), edge_index=_NONE)
    with pytest.raises(
        DataError, match=r"graph 0: 'x' holds 1e\+39, which exceeds single precision"
    ):
        GraphArchive.from_data_list([graph])
