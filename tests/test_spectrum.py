from __future__ import annotations

import time

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Batch, Data, HeteroData

from eigenformer import LaplacianSpectrum
from eigenformer import spectrum as module
from eigenformer.spectrum import (
    eigenspaces,
    laplacian_spectra,
    laplacian_spectrum,
    node_degrees,
    normalized_laplacian,
)
from tests.graphs import dense_adjacency, edge_lists, from_networkx, graph, named_graphs


def structure(g: nx.Graph) -> tuple[torch.Tensor, int]:
    g = nx.convert_node_labels_to_integers(g)
    return torch.tensor(list(g.edges), dtype=torch.long).view(-1, 2).T, len(g)


@given(edge_lists())
def test_laplacian_follows_its_definition(case):
    n, edges = case
    data = graph(n, edges)
    adjacency = dense_adjacency(data)
    degree = adjacency.sum(1)
    scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0.0)
    expected = scale[:, None] * (torch.diag(degree) - adjacency) * scale
    assert torch.allclose(normalized_laplacian(data.edge_index, n), expected, atol=1e-15)
    assert torch.equal(node_degrees(data.edge_index, n).double(), degree)


@given(edge_lists())
def test_spectrum_rebuilds_the_laplacian(case):
    n, edges = case
    data = graph(n, edges, torch.float64)
    u = data.eigenvectors.view(n, n)
    laplacian = normalized_laplacian(data.edge_index, n)
    assert torch.allclose(u @ torch.diag(data.eigenvalues) @ u.T, laplacian, atol=1e-12)
    assert torch.allclose(u.T @ u, torch.eye(n).double(), atol=1e-12)
    assert data.eigenvalues.min() >= 0
    assert data.eigenvalues.max() <= 2
    assert (data.eigenvalues.diff() >= 0).all()
    components = nx.number_connected_components(nx.from_numpy_array(dense_adjacency(data).numpy()))
    assert (data.eigenvalues < 1e-9).sum() == components


def test_isolated_nodes_have_eigenvalue_zero():
    assert graph(3, []).eigenvalues.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["complete", "cycle", "hypercube", "two equal cycles"])
def test_an_eigenspace_has_one_eigenvalue_even_in_float32(name):
    values = named_graphs()[name].eigenvalues
    exact = np.round(torch.linalg.eigvalsh(normalized_laplacian(*_parts(name))).numpy(), 6)
    assert len(values.unique()) == len(np.unique(exact))


def _parts(name):
    data = named_graphs()[name]
    return data.edge_index, data.num_nodes


def test_eigenspaces_are_numbered_by_gaps():
    values = torch.tensor([0.0, 1.0, 1.0 + 5e-7, 1.0 + 2e-6, 2.0], dtype=torch.float64)
    assert eigenspaces(values).tolist() == [0, 1, 1, 2, 3]


def test_pyg_batches_without_padding(dtype):
    graphs = list(named_graphs(dtype).values())
    batch = Batch.from_data_list(graphs)
    sizes = [g.num_nodes for g in graphs]
    assert batch.eigenvalues.shape == (sum(sizes),)
    assert batch.eigenvectors.shape == (sum(n * n for n in sizes),)
    assert batch.eigenvectors.dtype == dtype
    for before, after in zip(graphs, batch.to_data_list(), strict=True):
        assert torch.equal(before.eigenvectors, after.eigenvectors)


def test_the_input_is_not_changed():
    data = Data(edge_index=torch.tensor([[0, 0, 1], [1, 0, 0]]), num_nodes=2)
    before = data.to_dict()
    LaplacianSpectrum()(data)
    LaplacianSpectrum().forward(data)
    LaplacianSpectrum().many([data])
    assert list(data.to_dict()) == list(before)
    assert torch.equal(data.edge_index, torch.tensor([[0, 0, 1], [1, 0, 0]]))


@pytest.mark.parametrize(
    ("k", "kept"), [(1, 1), (2, 3), (3, 3), (4, 5), (11, 11), (12, 12), (99, 12)]
)
def test_k_is_rounded_outwards_to_whole_eigenspaces(k, kept):
    # The 12-cycle has eigenvalues 1 - cos(2πm/12): 0 and 2 once, the others twice.
    data = LaplacianSpectrum(k)(Data(edge_index=structure(nx.cycle_graph(12))[0], num_nodes=12))
    assert data.num_frequencies == kept
    assert data.eigenvalues.shape == (kept,)
    assert data.eigenvectors.shape == (12 * kept,)


def test_many_equals_one_by_one():
    graphs = [*named_graphs(torch.float64).values()]
    bare = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
    for k in (None, 4):
        transform = LaplacianSpectrum(k, torch.float64)
        for alone, together in zip(map(transform, bare), transform.many(bare), strict=True):
            n = alone.num_nodes
            assert torch.allclose(alone.eigenvalues, together.eigenvalues, atol=1e-12)
            u, v = alone.eigenvectors.view(n, -1), together.eigenvectors.view(n, -1)
            assert torch.allclose(u @ u.T, v @ v.T, atol=1e-9)


SPARSE = {
    "cycle": nx.cycle_graph(600),
    "grid": nx.grid_2d_graph(25, 25, periodic=True),
    "path": nx.path_graph(700),
    "random regular": nx.random_regular_graph(4, 800, seed=0),
    "many components": nx.disjoint_union_all([nx.cycle_graph(6)] * 100),
    "isolated nodes": nx.disjoint_union(nx.path_graph(600), nx.empty_graph(5)),
    "tree": nx.balanced_tree(3, 5),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_solver_finds_what_the_dense_one_does(name):
    edge_index, n = structure(SPARSE[name])
    sparse = module._lowest_of_sparse(edge_index, n, 20)
    assert sparse is not None
    values, vectors = torch.linalg.eigh(normalized_laplacian(edge_index, n))
    dense = module._tidy(values, vectors, 20)
    assert torch.allclose(sparse.eigenvalues, dense.eigenvalues, atol=1e-10)
    u, v = sparse.eigenvectors, dense.eigenvectors
    # Weighting each frequency differently shows that eigenvectors match their eigenvalues.
    weight = torch.linspace(1, 2, len(dense.eigenvalues.unique())).double()
    weight = weight[eigenspaces(dense.eigenvalues)]
    assert torch.allclose(u * weight @ u.T, v * weight @ v.T, atol=1e-8)


def test_where_the_sparse_solver_gives_up_the_dense_one_answers():
    edge_index, n = structure(nx.star_graph(600))  # eigenvalue 1 has 599 dimensions
    assert module._lowest_of_sparse(edge_index, n, 8) is None
    spectrum = laplacian_spectrum(edge_index, n, 8)
    assert spectrum.eigenvectors.shape == (601, 600)


def path_eigenvalues(n: int) -> torch.Tensor:
    """They are known: 1 − cos(πm / (n − 1))."""
    return 1 - torch.cos(torch.pi * torch.arange(n).double() / (n - 1))


def test_zero_stays_zero_beside_the_slowest_frequencies():
    # λ₂ of a path of 2300 nodes is 9e-7: closer to 0 than eigenvalues that count as one.
    edge_index, n = structure(nx.path_graph(2300))
    dense = module._tidy(path_eigenvalues(n), torch.empty(1, n), 3)
    for spectrum in (dense, module._lowest_of_sparse(edge_index, n, 3)):
        assert (spectrum.eigenvalues == 0).sum() == 1
        assert spectrum.eigenvalues[1] == pytest.approx(1 - np.cos(np.pi / (n - 1)), abs=1e-9)


@pytest.mark.parametrize("k", [1, 2])
def test_chains_of_close_eigenvalues_are_cut_alike(k):
    edge_index, n = structure(nx.path_graph(5000))
    exact = module._tidy(path_eigenvalues(n), torch.empty(1, n), k)
    sparse = module._lowest_of_sparse(edge_index, n, k)
    assert torch.allclose(sparse.eigenvalues, exact.eigenvalues, atol=1e-12)


@pytest.mark.slow
def test_a_huge_eigenspace_is_given_up_early():
    edge_index, n = structure(nx.star_graph(17_000))
    start = time.process_time()
    with pytest.raises(ValueError, match="num_frequencies=2 does not avoid this"):
        laplacian_spectrum(edge_index, n, 2)
    assert time.process_time() - start < 120


def test_a_second_spectrum_replaces_the_first():
    data = from_networkx(nx.cycle_graph(12))
    again = LaplacianSpectrum()(LaplacianSpectrum(4)(data))
    assert "num_frequencies" not in again
    assert torch.equal(again.eigenvalues, data.eigenvalues)


def test_many_graphs_are_checked_one_by_one():
    good = Data(num_nodes=3, edge_index=torch.tensor([[0], [1]]))
    for column, message in (([0, 3], "graph 1: .*refers to node 3"), ([-1, 0], "smallest: -1")):
        bad = Data(num_nodes=3, edge_index=torch.tensor([column]).T)
        with pytest.raises(ValueError, match=message):
            LaplacianSpectrum().many([good, bad, good])
    empty = Data(num_nodes=0, edge_index=torch.empty(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match="graph 0: a graph without nodes"):
        LaplacianSpectrum().many([empty, empty])


def test_edges_in_other_forms():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    expected = LaplacianSpectrum()(Data(num_nodes=3, edge_index=edge_index))
    small = LaplacianSpectrum()(Data(num_nodes=3, edge_index=edge_index.int()))
    assert torch.equal(small.eigenvalues, expected.eigenvalues)
    none = LaplacianSpectrum()(Data(num_nodes=2, edge_index=torch.empty(2, 0)))
    assert none.eigenvalues.tolist() == [0, 0]
    cases = {
        r"shape \(1, 2\), expected": Data(num_nodes=3, edge_index=torch.tensor([[0, 1]])),
        "torch.float32, expected integers": Data(num_nodes=3, edge_index=torch.ones(2, 1)),
        "'adj_t' is not supported": Data(num_nodes=3, adj_t=torch.eye(3)),
    }
    for message, data in cases.items():
        with pytest.raises(ValueError, match=message):
            LaplacianSpectrum()(data)
    for other in (Batch.from_data_list([expected]), HeteroData()):
        with pytest.raises(TypeError, match="to every graph, before batching"):
            LaplacianSpectrum()(other)


def test_clear_errors():
    with pytest.raises(ValueError, match="without nodes"):
        laplacian_spectrum(torch.empty(2, 0, dtype=torch.long), 0)
    with pytest.raises(ValueError, match="refers to node 7"):
        laplacian_spectrum(torch.tensor([[0], [7]]), 3)
    with pytest.raises(ValueError, match=r"30000 nodes needs about 27 GB.*num_frequencies=64"):
        laplacian_spectrum(torch.tensor([[0], [1]]), 30_000)
    with pytest.raises(ValueError, match="num_frequencies: must be at least 1"):
        LaplacianSpectrum(0)
    with (
        pytest.warns(UserWarning, match="num_nodes"),
        pytest.raises(ValueError, match="'x' or 'num_nodes'"),
    ):
        LaplacianSpectrum()(Data())


def test_zinc_in_seconds(raw_dir):
    with np.load(raw_dir / "zinc" / "zinc12k.npz", allow_pickle=False) as zinc:
        bonds = torch.from_numpy(zinc["bond"][:, :2].astype(np.int64)).T
        node, bond = zinc["node_offset"], zinc["bond_offset"]
    graphs = [
        (bonds[:, bond[g] : bond[g + 1]], int(node[g + 1] - node[g])) for g in range(len(node) - 1)
    ]
    assert len(graphs) == 12_000
    start = time.process_time()  # of all threads, so that other work does not count
    spectra = laplacian_spectra(graphs)
    assert time.process_time() - start < 15
    assert sum(len(s.eigenvalues) for s in spectra) == 277_864
