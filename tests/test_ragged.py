from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch_geometric.data import Batch, Data, HeteroData

from eigenformer import LaplacianSpectrum
from eigenformer.ragged import RaggedGraphs
from tests.graphs import edge_lists, graph, named_graphs, random_batch


def test_reads_a_batch(dtype):
    graphs = list(named_graphs(dtype).values())
    ragged = RaggedGraphs.from_data(Batch.from_data_list(graphs))
    assert ragged.sizes == ragged.num_frequencies == tuple(g.num_nodes for g in graphs)
    assert ragged.eigenvalues.dtype == dtype
    assert torch.equal(ragged.node_graph, Batch.from_data_list(graphs).batch)


def test_a_graph_alone_needs_no_batch():
    data = graph(3, [(0, 1)])
    assert RaggedGraphs.from_data(data).sizes == (3,)
    data.batch = torch.zeros(3, dtype=torch.long)
    assert RaggedGraphs.from_data(data).sizes == (3,)


@given(edge_lists())
def test_parallel_edges_are_summed(case):
    n, edges = case
    ragged = RaggedGraphs.from_data(graph(n, edges))
    features = torch.randn(len(edges), 2, dtype=torch.float64)
    summed = ragged.sum_parallel(features)
    expected: dict[tuple[int, int], torch.Tensor] = {}
    for edge, feature in zip(edges, features, strict=True):
        expected[edge] = expected.get(edge, torch.zeros(2).double()) + feature
    distinct = [tuple(edge) for edge in ragged.edge_index.T.tolist()]
    assert sorted(distinct) == sorted(expected)
    for edge, row in zip(distinct, summed, strict=True):
        assert torch.allclose(row, expected[edge])


def without(data: Data, attribute: str) -> Data:
    data = data.clone()
    delattr(data, attribute)
    return data


def changed(data: Data, **attributes: object) -> Data:
    data = data.clone()
    for name, value in attributes.items():
        setattr(data, name, value)
    return data


def test_clear_errors():
    data = graph(3, [(0, 1), (1, 2)])
    nan = torch.full((3,), torch.nan)
    cases = {
        "graphs have no 'eigenvalues': apply eigenformer.LaplacianSpectrum": without(
            data, "eigenvalues"
        ),
        "no 'eigenvectors'": without(data, "eigenvectors"),
        "graph 0 of the batch: non-finite eigenpairs": changed(data, eigenvalues=nan),
        "do not match the graphs' sizes": changed(data, eigenvalues=torch.zeros(2)),
        r"edge \[0, 9\] \(column 0\)": changed(data, edge_index=torch.tensor([[0], [9]])),
        "2 values for 1 graphs": changed(data, num_frequencies=torch.tensor([3, 3])),
        "sorted by graph": changed(data, batch=torch.tensor([0, 1, 0])),
        "'adj_t' is not supported": changed(without(data, "edge_index"), adj_t=torch.eye(3)),
        "graph 0 of the batch has no nodes": changed(data, x=torch.empty(0, 1)),
    }
    for message, broken in cases.items():
        with pytest.raises(ValueError, match=message):
            RaggedGraphs.from_data(broken)


def test_int32_edges_of_a_large_batch():
    # source · nodes + target would overflow 32 bits
    n = 50_000
    data = Data(x=torch.zeros(n, 1), edge_index=torch.tensor([[n - 1], [n - 2]], dtype=torch.int32))
    data.eigenvalues, data.eigenvectors, data.num_frequencies = torch.zeros(1), torch.zeros(n), 1
    assert RaggedGraphs.from_data(data).degrees.sum() == 2


def test_hetero_data_is_refused():
    with pytest.raises(TypeError, match="PyG Data or Batch, got a HeteroData"):
        RaggedGraphs.from_data(HeteroData())


def test_errors_name_the_graph():
    graphs = [graph(3, [(0, 1)]), graph(4, [(0, 1)]), graph(2, [(0, 1)])]
    graphs[1].eigenvectors = graphs[1].eigenvectors * torch.nan
    with pytest.raises(ValueError, match="graph 1 of the batch: .*'eigenvectors'"):
        RaggedGraphs.from_data(Batch.from_data_list(graphs))
    batch = random_batch([3, 4])
    batch.edge_index = torch.tensor([[4], [0]])
    with pytest.raises(ValueError, match="graph 1 of the batch: edge_index connects it"):
        RaggedGraphs.from_data(batch)
    batch = random_batch([3, 4, 5])
    batch.ptr = torch.tensor([0, 7, 7, 12])
    with pytest.raises(ValueError, match="graph 1 of the batch has no nodes"):
        RaggedGraphs.from_data(batch)


def test_a_spectrum_of_k_frequencies_batches():
    transform = LaplacianSpectrum(num_frequencies=4)
    graphs = [transform(g) for g in (graph(3, [(0, 1)]), graph(9, [(i, i + 1) for i in range(8)]))]
    ragged = RaggedGraphs.from_data(Batch.from_data_list(graphs))
    assert ragged.num_frequencies == (3, 4)
    assert RaggedGraphs.from_data(graphs[1]).num_frequencies == (4,)
