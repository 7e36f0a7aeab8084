from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch

from eigenformer import LaplacianSpectrum, SpectrumAwareAttention
from eigenformer.edges import Edges
from eigenformer.kernels import AttentionKernel, make_kernel
from eigenformer.kernels.native import load
from eigenformer.kernels.torch import _similar_sizes
from eigenformer.ragged import RaggedGraphs
from tests.graphs import named_graphs, random_batch, random_graph

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
SIZES = [1, 2, 3, 5, 8, 9, 9, 13, 21, 30, 31, 37]


def run(layer, graphs: AttentionKernel, inputs, weight, keep=None):
    """The output and all gradients of one attention layer."""
    inputs = {k: None if v is None else v.clone().requires_grad_() for k, v in inputs.items()}
    if keep is not None:  # attend() is given the mask that dropout would draw
        attend = graphs.attend
        graphs.attend = lambda terms, dropout, return_attention: attend(terms, keep=keep)
    edges = None
    if inputs["rows"] is not None:
        edges = Edges.of(inputs["rows"], graphs.graphs, inputs["no_edge"])
    out = layer(inputs["x"], graphs, edges)
    (out * weight).sum().backward()
    gradients = {k: v.grad for k, v in inputs.items() if v is not None}
    named = layer.named_parameters()
    gradients |= {k: p.grad.clone() for k, p in named if p.grad is not None}
    layer.zero_grad()
    return out.detach(), gradients


def compare(
    batch, dtype, feature_attention, edges, psi="signed_sqrt", keep=None, backend="torch", **options
):
    graphs = RaggedGraphs.from_data(batch, dtype)
    layer = SpectrumAwareAttention(
        16, 4, feature_attention=feature_attention, edge_features=edges, psi=psi, **options
    ).to(dtype)
    inputs = {
        "x": torch.randn(batch.num_nodes, 16, dtype=dtype),
        "rows": torch.randn(batch.num_edges, 16, dtype=dtype) if edges else None,
        "no_edge": torch.randn(16, dtype=dtype) if edges else None,
    }
    weight = torch.randn(batch.num_nodes, 16, dtype=dtype)
    if keep is not None:
        pairs = sum(n * n for n in graphs.sizes)
        keep = (torch.rand(4, pairs) < keep).to(dtype) / keep
    out, grads = run(layer, make_kernel(graphs, backend), inputs, weight, keep)
    expected, expected_grads = run(layer, make_kernel(graphs, "literal"), inputs, weight, keep)
    assert (out - expected).abs().max() / expected.abs().max() < TOLERANCE[dtype]
    largest = max(g.abs().max() for g in expected_grads.values())
    for name, gradient in expected_grads.items():
        assert (grads[name] - gradient).abs().max() / largest < TOLERANCE[dtype], name


OPTIONS = list(itertools.product([False, True], [False, True], ["signed_sqrt", "identity"]))


@pytest.mark.parametrize(("feature_attention", "edges", "psi"), OPTIONS)
def test_equals_the_literal_kernel(feature_attention, edges, psi, dtype):
    batch = random_batch(SIZES, dtype)
    compare(batch, dtype, feature_attention, edges, psi)


@pytest.mark.skipif(load()[0] is None, reason=load()[1])
@pytest.mark.parametrize(("feature_attention", "edges", "psi"), OPTIONS)
def test_the_native_kernel_equals_it_too(feature_attention, edges, psi):
    for seed in range(4):
        torch.manual_seed(seed)
        batch = random_batch(SIZES * 2)
        compare(batch, torch.float32, feature_attention, edges, psi, backend="native")


@pytest.mark.parametrize(("feature_attention", "edges", "psi"), OPTIONS[:4])
def test_equals_the_literal_kernel_under_the_same_dropout(feature_attention, edges, psi, dtype):
    compare(random_batch(SIZES, dtype), dtype, feature_attention, edges, psi, keep=0.7)


def test_equals_the_literal_kernel_on_special_graphs(dtype):
    compare(Batch.from_data_list([*named_graphs(dtype).values()]), dtype, True, True)


@pytest.mark.parametrize(("width", "depth"), [(1, 1), (64, 1), (8, 4), (128, 2)])
def test_equals_the_literal_kernel_for_any_phi(width, depth, dtype):
    batch = random_batch(SIZES, dtype)
    compare(batch, dtype, True, True, phi_width=width, phi_depth=depth)


def test_equals_the_literal_kernel_with_few_frequencies(dtype):
    graphs = [random_graph(n, dtype) for n in SIZES]
    batch = Batch.from_data_list([LaplacianSpectrum(3, dtype)(g) for g in graphs])
    compare(batch, dtype, False, True)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 1000), st.booleans())
def test_equals_the_literal_kernel_for_any_sizes(sizes, seed, feature_attention):
    torch.manual_seed(seed)
    compare(random_batch(sizes, torch.float64), torch.float64, feature_attention, True)


def test_a_spectrum_that_is_not_orthonormal_is_still_exact():
    batch = random_batch([7, 12], torch.float64)
    batch.eigenvectors = batch.eigenvectors * 3
    compare(batch, torch.float64, False, False)


def test_attention_per_graph_sums_to_one(dtype):
    batch = random_batch(SIZES, dtype)
    layer = SpectrumAwareAttention(16, 4).to(dtype)
    _, attention = layer(
        torch.randn(batch.num_nodes, 16, dtype=dtype), batch, return_attention=True
    )
    assert [a.shape for a in attention] == [(4, n, n) for n in SIZES]
    for a in attention:
        assert torch.allclose(a.sum(-1), torch.ones((), dtype=dtype))


def test_dropout_drops_attention_and_keeps_its_mean():
    batch = random_batch([40] * 20)
    layer = SpectrumAwareAttention(16, 4, dropout=0.5)
    x = torch.ones(batch.num_nodes, 16)
    dropped = layer(x, batch)
    assert (dropped - layer(x, batch)).abs().max() > 1e-3
    layer.eval()
    kept = layer(x, batch)
    assert torch.equal(kept, layer(x, batch))
    assert torch.allclose(dropped.mean(0), kept.mean(0), atol=0.02)


class LargestTensor(TorchDispatchMode):
    """The largest tensor any operator makes."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return out


@pytest.mark.parametrize("phi_width", [8, 64])
def test_memory_is_heads_times_pairs_whatever_phi_and_d(phi_width):
    heads, n = 4, 300
    batch = random_batch([n])
    layer = SpectrumAwareAttention(
        64, heads, phi_width, feature_attention=True, edge_features=True, dropout=0.1
    )
    x, e = torch.randn(n, 64), torch.randn(batch.num_edges, 64)
    with LargestTensor() as largest:
        layer(x, batch, e).sum().backward()
    assert largest.numel <= heads * n * n


def test_graphs_of_similar_size_share_a_group():
    sizes = (10, 37, 9, 36, 8, 1, 30)
    groups = _similar_sizes(sizes)
    assert sorted(g for group in groups for g in group) == list(range(len(sizes)))
    for group in groups:
        assert min(sizes[g] for g in group) >= 0.8 * max(sizes[g] for g in group)
    assert len(groups) == 3


def test_phi1_must_be_piecewise_linear():
    batch = random_batch([5])
    layer = SpectrumAwareAttention(16, 4)
    layer.phi1 = torch.nn.Tanh()
    with pytest.raises(TypeError, match=r"phi1 is a Tanh.*'literal'"):
        layer(torch.randn(5, 16), batch)
    layer.backend = "literal"
    assert layer(torch.randn(5, 16), batch).shape == (5, 16)


def test_unknown_backend():
    graphs = RaggedGraphs.from_data(random_batch([3]))
    with pytest.raises(ValueError, match="'fast': unknown; the nearest is"):
        make_kernel(graphs, "fast")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_runs_on_cuda_unchanged():
    batch = random_batch(SIZES)
    layer = SpectrumAwareAttention(16, 4, feature_attention=True, edge_features=True)
    x, e = torch.randn(batch.num_nodes, 16), torch.randn(batch.num_edges, 16)
    expected = layer(x, batch, e)
    got = layer.cuda()(x.cuda(), batch.cuda(), e.cuda())
    assert torch.allclose(got.cpu(), expected, atol=1e-4)
