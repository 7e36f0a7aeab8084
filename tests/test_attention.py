from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch

from eigenformer import SpectrumAwareAttention
from eigenformer.attention import signed_sqrt
from eigenformer.edges import Edges
from eigenformer.ragged import RaggedGraphs
from tests.graphs import graph, named_graphs, random_batch


def test_signed_sqrt_is_smooth_at_zero(dtype):
    x = torch.tensor([-4.0, -1e-3, 0.0, 1e-3, 4.0], dtype=dtype, requires_grad=True)
    y = signed_sqrt(x)
    y.sum().backward()
    assert torch.allclose(y[[0, 4]], torch.tensor([-2.0, 2.0], dtype=dtype), atol=1e-5)
    assert torch.equal(y, -y.flip(0))
    assert x.grad.isfinite().all()
    assert x.grad[2] == pytest.approx(1000)
    zeros = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(signed_sqrt, zeros, eps=1e-9, atol=1e-2)


@pytest.mark.parametrize("backend", ["torch", "literal"])
@pytest.mark.parametrize("feature_attention", [False, True])
@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradcheck(backend, feature_attention, thorough):
    graphs = [named_graphs(torch.float64)[n] for n in ("directed", "multi-edges", "one node")]
    batch = Batch.from_data_list(graphs)
    layer = SpectrumAwareAttention(
        4, 2, 3, feature_attention=feature_attention, edge_features=True, backend=backend
    ).double()
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def attend(x, e, none, *parameters):
        state = dict(zip(names, parameters, strict=True))
        edges = Edges.of(e, RaggedGraphs.from_data(batch), none)
        return torch.func.functional_call(layer, state, (x, batch, edges))

    inputs = [torch.randn(s, 4).double() for s in (batch.num_nodes, batch.num_edges)]
    inputs = [*inputs, torch.randn(4).double(), *(p.detach() for p in parameters)]
    inputs = [i.requires_grad_() for i in inputs]
    assert torch.autograd.gradcheck(attend, inputs, eps=1e-7, fast_mode=not thorough)


@pytest.mark.parametrize("backend", ["torch", "literal"])
def test_gradcheck_where_psi_is_at_zero(backend):
    # Queries start at 0, so that every q·k is 0, where √ has no slope but ψ has.
    data = graph(4, [(0, 1), (1, 2), (2, 3)], torch.float64)
    layer = SpectrumAwareAttention(4, 2, 3, feature_attention=True, backend=backend).double()
    for p in layer.query.parameters():
        torch.nn.init.zeros_(p)
    x = torch.randn(4, 4).double()

    def attend(weight):
        state = {**dict(layer.named_parameters()), "query.weight": weight}
        return torch.func.functional_call(layer, state, (x, data))

    # ψ bends within 1e-6 of 0: the step must stay well inside.
    weight = layer.query.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(attend, weight, eps=1e-10, atol=1e-3, rtol=1e-3)
    layer(x, data).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_the_layer_speaks_pyg():
    batch = random_batch([5, 9])
    layer = SpectrumAwareAttention(16, 4, edge_features=True)
    x, e = torch.randn(14, 16), torch.randn(batch.num_edges, 16)
    before = batch.clone()
    assert layer(x, batch, e).shape == (14, 16)
    for key, value in before.to_dict().items():
        assert torch.equal(value, batch[key]), key
    assert "16, heads=4, feature_attention=False" in repr(layer)


def test_edge_features_follow_the_edge_direction():
    # e_ij, used when i gathers from j, is the feature of the edge j → i.
    data = graph(2, [(0, 1)], torch.float64)
    layer = SpectrumAwareAttention(4, 2, edge_features=True).double()
    x = torch.randn(2, 4).double()
    one, other = torch.randn(1, 4).double(), torch.randn(1, 4).double()
    change = layer(x, data, one) - layer(x, data, other)
    assert torch.equal(change[0], torch.zeros(4).double())
    assert change[1].abs().max() > 1e-3


def test_wrong_use():
    data = graph(3, [(0, 1)])
    for heads in (4, 0):
        with pytest.raises(ValueError, match="heads must divide channels"):
            SpectrumAwareAttention(10, heads)
    with pytest.raises(ValueError, match="psi: 'signed_sqr': unknown; .*'signed_sqrt'"):
        SpectrumAwareAttention(8, 4, psi="signed_sqr")
    with pytest.raises(ValueError, match="backend: 'litera': unknown; .*'literal'"):
        SpectrumAwareAttention(8, 4, backend="litera")
    with pytest.raises(ValueError, match=r"dropout: must be in \[0, 1\)"):
        SpectrumAwareAttention(8, 4, dropout=1.0)
    for rows in (2, 5):
        with pytest.raises(ValueError, match=f"x: shape .{rows}, 8.*each of 3 nodes"):
            SpectrumAwareAttention(8, 4)(torch.randn(rows, 8), data)
    with pytest.raises(ValueError, match=r"edge_attr is missing.*edge_features=True"):
        SpectrumAwareAttention(8, 4, edge_features=True)(torch.randn(3, 8), data)
    with pytest.raises(ValueError, match=r"edge_attr is given.*edge_features=False"):
        SpectrumAwareAttention(8, 4)(torch.randn(3, 8), data, torch.randn(1, 8))
