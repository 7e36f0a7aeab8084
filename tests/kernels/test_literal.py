from __future__ import annotations

import pytest
import torch

from eigenformer import SpectrumAwareAttention
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
    out, attention = layer(x, data, edge_attr, no_edge, return_attention=True)
    expected, expected_attention = reference.attend(layer, x, data, edge_attr, no_edge)
    assert torch.allclose(out, expected, atol=1e-12)
    assert torch.allclose(attention[0], expected_attention, atol=1e-12)


def test_takes_any_function_as_phi():
    data = named_graphs(torch.float64)["directed"]
    kernel = LiteralAttention(RaggedGraphs.from_data(data))
    u = data.eigenvectors.view(5, 5)
    scores = kernel.scores(torch.exp, heads=3)
    assert scores.shape == (3, 1, 5, 5)
    assert torch.allclose(scores[1, 0], u @ torch.diag(data.eigenvalues.exp()) @ u.T, atol=1e-12)
