"""Encodings against PyG's transforms, and their cache."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

from eigenformer.config import LaplacianSpec, RandomWalkSpec
from eigenformer.data import GraphArchive
from eigenformer.data.batching import GraphDataset
from eigenformer.data.encodings import with_encoding, with_encoding_in_memory
from tests.graphs import from_networkx, named_graphs


def plain(graphs: list[Data]) -> list[Data]:
    return [Data(x=g.x, edge_index=g.edge_index) for g in graphs]


def simple_graphs() -> list[Data]:
    """Undirected, without loops: a tree, a path, a dense graph, two components, isolated nodes."""
    apart = nx.disjoint_union(nx.cycle_graph(5), nx.path_graph(3))
    alone = nx.disjoint_union(nx.path_graph(4), nx.empty_graph(2))
    made = [nx.path_graph(7), nx.gnp_random_graph(12, 0.5, seed=1), apart, alone, nx.star_graph(5)]
    return plain([from_networkx(g) for g in made])


def test_random_walks_are_those_of_pyg() -> None:
    graphs = simple_graphs()
    archive = with_encoding_in_memory(GraphArchive.from_data_list(graphs), RandomWalkSpec(steps=16))
    for graph, found in zip(graphs, archive, strict=True):
        expected = AddRandomWalkPE(16, "rwse")(graph.clone()).rwse
        torch.testing.assert_close(found.rwse, expected, rtol=1e-5, atol=1e-6)


def test_any_multigraph_counts_as_the_simple_undirected_one() -> None:
    for name, graph in named_graphs().items():
        edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
        edges = edges[:, edges[0] != edges[1]].unique(dim=1)
        simple = Data(x=graph.x, edge_index=edges)
        archive = GraphArchive.from_data_list(plain([graph]))
        found = with_encoding_in_memory(archive, RandomWalkSpec(steps=8))[0].rwse
        expected = AddRandomWalkPE(8, "rwse")(simple).rwse
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, msg=name)


def test_eigenvectors_are_those_of_pyg_up_to_signs() -> None:
    # The eigenvalues of these graphs are distinct, so that signs are all that is free.
    graphs = plain([from_networkx(g) for g in (nx.path_graph(9), nx.lollipop_graph(3, 8))])
    archive = with_encoding_in_memory(GraphArchive.from_data_list(graphs), LaplacianSpec(vectors=5))
    for graph, found in zip(graphs, archive, strict=True):
        transform = AddLaplacianEigenvectorPE(5, "lappe", is_undirected=True)
        expected = transform(graph.clone()).lappe.abs()
        torch.testing.assert_close(found.lappe.abs(), expected.float(), rtol=1e-4, atol=1e-5)
        assert (found.lappe_values.diff() > 0).all()
        assert found.lappe_values.min() > 0


def test_small_graphs_have_fewer_eigenvectors() -> None:
    graphs = plain([from_networkx(nx.path_graph(n)) for n in (1, 3, 6)])
    archive = with_encoding_in_memory(GraphArchive.from_data_list(graphs), LaplacianSpec(vectors=4))
    missing = archive.fields["lappe_values"].values == -1
    assert missing.sum(1).tolist() == [4, 2, 0]
    assert (archive.fields["lappe"].values[0] == 0).all()


def test_the_cache_is_used_and_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = GraphArchive.from_data_list(simple_graphs()).save(tmp_path / "graphs")
    encoding = RandomWalkSpec(steps=6, width=3)
    first = with_encoding(archive, encoding).fields["rwse"].values.copy()
    (folder,) = (path for path in (tmp_path / "spectra").iterdir() if path.is_dir())
    with monkeypatch.context() as patch:
        patch.setattr("eigenformer.data.encodings.solve", None)
        # The width belongs to the network.
        again = with_encoding(archive, encoding.replace(width=5)).fields["rwse"].values
    np.testing.assert_array_equal(again, first)
    (folder / "rwse.npy").write_bytes(b"broken")
    np.testing.assert_array_equal(with_encoding(archive, encoding).fields["rwse"].values, first)
    other = with_encoding(archive, encoding.replace(steps=7)).fields["rwse"].values
    assert other.shape[1] == 7


@pytest.mark.parametrize("encoding", [RandomWalkSpec(steps=4), LaplacianSpec(vectors=3)])
def test_a_batch_has_the_encodings_of_its_graphs(encoding) -> None:
    archive = with_encoding_in_memory(GraphArchive.from_data_list(simple_graphs()), encoding)
    batch = GraphDataset(archive).batch([3, 0, 2])
    expected = Batch.from_data_list([archive[i] for i in (3, 0, 2)])
    for name in ("rwse",) if encoding.kind == "rwse" else ("lappe", "lappe_values"):
        torch.testing.assert_close(batch[name], expected[name])
