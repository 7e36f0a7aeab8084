from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch

from eigenformer import SpectrumAwareAttention
from eigenformer.edges import Edges
from eigenformer.kernels import LiteralAttention
from eigenformer.ragged import RaggedGraphs
from tests import reference
from tests.graphs import named_graphs


@pytest.mark.parametrize("edges", [True, False], ids=["edges", "no edge features"])
@pytest.mark.parametrize("feature_attention", [True, False], ids=["feat", "spec"])
@pytest.mark.parametrize("name", [n for n in named_graphs() if n not in ("large", "hypercube")])
def test_equals_loops_over_all_pairs_with_the_dense_e_ij(name, feature_attention, edges):
    data = named_graphs(torch.float64)[name]
    layer = SpectrumAwareAttention(
        8,
        heads=2,
        phi_width=5,
        feature_attention=feature_attention,
        edge_features=edges,
        backend="literal",
    ).double()
    x = torch.randn(data.num_nodes, 8).double()
    edge_attr = torch.randn(data.num_edges, 8).double() if edges else None
    no_edge = torch.randn(8).double() if edges else None
    graphs = RaggedGraphs.from_data(data)
    given = Edges.of(edge_attr, graphs, no_edge) if edges else None
    out, attention = layer(x, data, given, return_attention=True)
    expected, expected_attention = reference.attend(layer, x, data, edge_attr, no_edge)
    assert torch.allclose(out, expected, atol=1e-12)
    assert torch.allclose(attention[0], expected_attention, atol=1e-12)


def test_a_batch_is_its_graphs():
    graphs = [g for name, g in named_graphs(torch.float64).items() if name != "large"]
    layer = SpectrumAwareAttention(8, 2, 5, feature_attention=True, edge_features=True).double()
    layer.backend = "literal"
    batch = Batch.from_data_list(graphs)
    x = torch.randn(batch.num_nodes, 8).double()
    e, none = torch.randn(batch.num_edges, 8).double(), torch.randn(8).double()
    parts = zip(
        graphs,
        x.split([g.num_nodes for g in graphs]),
        e.split([g.num_edges for g in graphs]),
        strict=True,
    )
    out = layer(x, batch, Edges.of(e, RaggedGraphs.from_data(batch), none))
    expected = torch.cat([reference.attend(layer, a, g, b, none)[0] for g, a, b in parts])
    assert torch.allclose(out, expected, atol=1e-12)


def test_takes_any_function_as_phi():
    data = named_graphs(torch.float64)["directed"]
    kernel = LiteralAttention(RaggedGraphs.from_data(data))
    u = data.eigenvectors.view(5, 5)
    scores = kernel.scores(torch.exp, heads=3)
    assert scores.shape == (3, 1, 5, 5)
    assert torch.allclose(scores[1, 0], u @ torch.diag(data.eigenvalues.exp()) @ u.T, atol=1e-12)
