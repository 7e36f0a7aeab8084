from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch

from eigenformer import Eigenformer, LaplacianSpectrum
from eigenformer.testing import basis_error, batch_error, permutation_error, permute, sign_error
from tests.graphs import edge_lists, from_networkx, graph, named_graphs, small_config

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
DTYPES = st.sampled_from([torch.float32, torch.float64])
REPEATED = {
    "cycle": nx.cycle_graph(12),
    "complete": nx.complete_graph(9),
    "hypercube": nx.hypercube_graph(4),
    "disconnected copies": nx.disjoint_union_all([nx.petersen_graph()] * 3),
}


def model(seed: int, dtype: torch.dtype, **changes: object) -> Eigenformer:
    """A model whose attention is far from uniform: φ's weights are larger than at the start."""
    torch.manual_seed(seed)
    model = Eigenformer(small_config(**changes)).to(dtype).eval()
    with torch.no_grad():
        for layer in model.layers:
            for p in (*layer.attention.phi1.parameters(), *layer.attention.phi2.parameters()):
                p.mul_(1.7)
    return model


@given(
    edge_lists(),
    st.integers(0, 99),
    DTYPES,
    st.booleans(),
    st.sampled_from(["sum", "mean", "none"]),
)
def test_the_model_has_all_symmetries(case, seed, dtype, feature_attention, pooling):
    m = model(seed, dtype, feature_attention=feature_attention, pooling=pooling)
    data = graph(*case, dtype)
    assert permutation_error(m, data) < TOLERANCE[dtype]
    assert sign_error(m, data) < TOLERANCE[dtype]
    assert basis_error(m, data) < TOLERANCE[dtype]


@given(st.lists(edge_lists(), min_size=1, max_size=5), st.integers(0, 99), DTYPES, st.booleans())
def test_a_graph_does_not_see_its_batch(cases, seed, dtype, feature_attention):
    m = model(seed, dtype, feature_attention=feature_attention)
    assert batch_error(m, [graph(*case, dtype) for case in cases]) < TOLERANCE[dtype]


@pytest.mark.parametrize("backend", ["torch", "literal"])
@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("preset", ["zinc", "zinc-feat"])
def test_repeated_eigenvalues(preset, name, backend, dtype):
    m = Eigenformer.from_preset(preset, backend, layers=3).to(dtype).eval()
    data = from_networkx(REPEATED[name], dtype)
    for error in (permutation_error, sign_error, basis_error):
        assert error(m, data) < TOLERANCE[dtype]


def test_any_set_of_whole_eigenspaces_is_invariant(dtype):
    m = model(0, dtype)
    data = LaplacianSpectrum(4, dtype)(from_networkx(REPEATED["cycle"], dtype))
    assert data.num_frequencies == 5
    assert permutation_error(m, data) < TOLERANCE[dtype]
    assert basis_error(m, data) < TOLERANCE[dtype]


def test_the_errors_are_not_always_small():
    """The same functions on a model or a graph that breaks the symmetry."""
    m = model(0, torch.float64)
    data = named_graphs(torch.float64)["cycle"]

    def first_node(batch):
        return m(batch) + batch.eigenvectors[0]

    assert sign_error(first_node, data) > 1e-3 or basis_error(first_node, data) > 1e-3
    assert permutation_error(lambda b: m(b) + b.x[0], data) > 1e-3
    assert batch_error(lambda b: m(b) + b.num_nodes, [data, data]) > 1e-3

    # Half of an eigenspace: the paper's literal draw, fixed to be the same for both graphs.
    def half(batch):
        batch = batch.clone()
        u = batch.eigenvectors.view(12, 12).clone()
        u[:, 2::2] = 0
        batch.eigenvectors = u.flatten()
        return m(batch)

    # In float64 a symmetry that holds is measured as 1e-10 or less.
    assert basis_error(half, data) > 1e-6
    assert permutation_error(half, data) > 1e-6


def test_all_node_attributes_are_permuted():
    data = graph(5, [(0, 1), (1, 2)], torch.float64)
    data.pos = torch.randn(5, 2).double()
    m = model(0, torch.float64)
    assert permutation_error(lambda b: m(b) + (b.pos * b.x).sum(), data) < 1e-9


def test_one_graph_with_its_spectrum_is_needed():
    m = model(0, torch.float32)
    bare = graph(3, [(0, 1)])
    del bare.eigenvectors
    for wrong in (Batch.from_data_list([graph(3, [])]), bare):
        for error in (permutation_error, sign_error, basis_error):
            with pytest.raises(ValueError, match="expected one graph, not a batch"):
                error(m, wrong)


def test_permuting_keeps_the_graph():
    data = graph(4, [(0, 1), (1, 2), (3, 3)], torch.float64)
    order = torch.tensor([2, 0, 3, 1])
    permuted = permute(data, order)
    assert torch.equal(permuted.x, data.x[order])
    assert torch.equal(order[permuted.edge_index], data.edge_index)
    assert torch.allclose(permuted.eigenvalues, data.eigenvalues)
    assert permuted.eigenvalues.dtype == torch.float64
