"""The native kernel against the oracle: outputs and every gradient."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer, LaplacianSpectrum
from eigenformer.kernels import (
    AttentionKernel,
    AttentionTerms,
    LiteralAttention,
    NativeAttention,
    PhiTable,
    TorchAttention,
    make_kernel,
)
from tests.kernels.native.cases import Case, Example
from tests.kernels.native.rounding import allowances


def check(case: Case, make: type[AttentionKernel] = NativeAttention) -> None:
    """A kernel's float32 must be as near to the exact result as the oracle in float32 is."""
    torch.set_num_threads(case.threads)
    example = Example.of(case)
    kernel = make(example.graphs)
    seed = torch.tensor(case.seed * 7919 + 1)
    keep = None
    if case.dropout:
        keep = NativeAttention(example.graphs).keep(case.heads, case.dropout, seed)
    exact = example.results(LiteralAttention(example.in_double()), keep, seed)
    literal = example.results(LiteralAttention(example.graphs), keep, seed)
    found = example.results(kernel, keep, seed)
    # Gradients that are 0 but for rounding are measured against the others.
    scale = max(float(x.abs().max()) for x in exact if x.numel())
    excess = []
    for a, b, c in zip(found, literal, exact, strict=True):
        size, off = (float(x.abs().max()) if x.numel() else 0.0 for x in (c, b - c))
        excess.append((a - c).abs() - (8 * off + 2e-5 * size + 2e-6 * scale))
    if max(float(x.max()) for x in excess if x.numel()) <= 0:
        return
    # Nothing more is allowed for than what rounding does at a knot, or to a sum that cancels.
    near = allowances(example, keep)
    for number, x in enumerate(excess):
        allowed = near[number - len(excess)] if number >= len(excess) - len(near) else 0.0
        worst = (x - allowed).max() if x.numel() else 0.0
        assert worst <= 0, f"result {number} is off by {float(x.max())} too much: {case}"


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_literal_kernel(seed: int) -> None:
    check(Case.random(seed, largest=100))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_equals_the_literal_kernel_thousands_of_times(block: int) -> None:
    for seed in range(1000 + 75 * block, 1075 + 75 * block):
        check(Case.random(seed, largest=100 if seed % 25 else 500))


@pytest.mark.slow
def test_what_rounding_does_at_a_knot_is_known() -> None:
    """The torch kernel finds its knots in float32: here one pair lies on their other side."""
    case = dataclasses.replace(Case.random(1500, largest=500), factors=0)
    example, seed = Example.of(case), torch.tensor(0)
    exact = example.results(LiteralAttention(example.in_double()), None, seed)
    found = example.results(TorchAttention(example.graphs), None, seed)
    near = allowances(example, None)
    off = [(a - c).abs() for a, c in zip(found, exact, strict=True)][-len(near) :]
    assert max(float(x.max()) for x in off) > 5e-4
    assert max(float((x - allowed).max()) for x, allowed in zip(off, near, strict=True)) < 2e-6


def test_without_edges() -> None:
    cases = (Case([1], edge_logits=True, features=True, seed=seed) for seed in range(50))
    check(next(case for case in cases if not Example.of(case).graphs.edge_index.size(1)))


def test_large_graph_in_parts() -> None:
    check(Case(sizes=[230, 3], features=True, edge_logits=True, threads=2, dropout=0.3))


@pytest.mark.parametrize("factors", [1, 3, 11])
def test_edges_that_are_sums_of_a_few_factors(factors: int) -> None:
    for logits in (True, False):
        check(Case(sizes=[50, 1, 12], heads=11, edge_logits=logits, factors=factors, threads=2))


def test_coefficients_may_have_gradients() -> None:
    example = Example.of(Case(factors=2))
    gradients = []
    for kernel in (NativeAttention(example.graphs), LiteralAttention(example.graphs)):
        terms, _ = example.terms()
        assert terms.edges.coefficients is not None
        a = terms.edges.coefficients.clone().requires_grad_()
        edges = dataclasses.replace(terms.edges, coefficients=a)
        out = kernel.attend(dataclasses.replace(terms, edges=edges))[0]
        gradients.append(torch.autograd.grad((out * example.weights).sum(), a)[0])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_same_bits_every_time(threads: int) -> None:
    torch.set_num_threads(threads)
    case = Case(
        [150, 3, 20, 31], features=True, edge_logits=True, kinds=4, dropout=0.4, threads=threads
    )
    example = Example.of(case)
    seed = torch.tensor(5)
    first = example.results(NativeAttention(example.graphs), None, seed)
    for _ in range(5):
        again = example.results(NativeAttention(example.graphs), None, seed)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_dropout_follows_torch_seed() -> None:
    example = Example.of(Case(dropout=0.5))
    kernel = NativeAttention(example.graphs)
    terms, _ = example.terms()
    torch.manual_seed(3)
    first, second = kernel.attend(terms, 0.5)[0], kernel.attend(terms, 0.5)[0]
    torch.manual_seed(3)
    assert torch.equal(first, kernel.attend(terms, 0.5)[0])
    assert not torch.equal(first, second)


def test_weights_may_change_between_calls() -> None:
    example = Example.of(Case())
    kernel = NativeAttention(example.graphs)
    terms, _ = example.terms()
    before = kernel.attend(terms)[0]
    with torch.no_grad():
        terms.phi1.weights[0].mul_(-3)
    after, expected = kernel.attend(terms)[0], LiteralAttention(example.graphs).attend(terms)[0]
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", [NativeAttention, TorchAttention])
def test_tables_are_values_that_are_used_as_given(kernel: type[NativeAttention]) -> None:
    example = Example.of(Case())
    terms, _ = example.terms()
    prepared = kernel(example.graphs)
    others = example.terms()[0]
    with torch.no_grad():
        others.phi1.weights[0].mul_(-3)
    first, second = prepared.tables([(x.phi1, x.phi2) for x in (terms, others)])
    # In any order, any number of times, and whatever φ is given beside them.
    for table, own in ((second, others), (first, terms), (second, others)):
        assert isinstance(table, PhiTable)
        expected = prepared.attend(own)[0]
        found = prepared.attend(dataclasses.replace(terms, table=table))[0]
        assert torch.equal(found, expected)


def test_a_table_of_one_kernel_serves_another() -> None:
    example = Example.of(Case())
    terms, _ = example.terms()
    kernels = NativeAttention(example.graphs), TorchAttention(example.graphs)
    expected = LiteralAttention(example.graphs).attend(terms)[0]
    for a in kernels:
        (table,) = a.tables([(terms.phi1, terms.phi2)])
        for b in kernels:
            found = b.attend(dataclasses.replace(terms, table=table))[0]
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_nan_is_not_hidden() -> None:
    example = Example.of(Case(sizes=[4, 6], edge_values=False))
    terms, _ = example.terms()
    with torch.no_grad():
        terms.values[1] = torch.nan
    out = NativeAttention(example.graphs).attend(terms)[0]
    assert out[:4].isnan().all()
    assert out[4:].isfinite().all()


@pytest.mark.parametrize("which", ["phi1", "phi2"])
@pytest.mark.parametrize("layer", range(3))
def test_a_nan_in_the_weights_is_not_hidden(which: str, layer: int) -> None:
    """A training that has diverged shows as a loss that is NaN, as with the other kernels."""
    example = Example.of(Case())
    terms, leaves = example.terms()
    with torch.no_grad():
        getattr(terms, which).weights[layer][3, 0, 0] = torch.nan
    out = NativeAttention(example.graphs).attend(terms)[0]
    assert out[:, 3].isnan().all()
    assert out[:, :3].isfinite().all()
    assert torch.autograd.grad(out.sum(), leaves)[0].isnan().any()


@pytest.mark.parametrize("kinds", [0, 4, 300])
def test_model_equals_literal(kinds: int) -> None:
    graphs = [
        Data(
            x=torch.randint(21, (n, 1)),
            edge_index=torch.randint(n, (2, 2 * n)).unique(dim=1),
        )
        for n in (9, 4, 30)
    ]
    for graph in graphs:
        edges = graph.edge_index.size(1)
        graph.edge_attr = torch.randn(edges, 1) if not kinds else torch.randint(kinds, (edges,))
    batch = Batch.from_data_list([LaplacianSpectrum()(g) for g in graphs])
    encoder = {"kind": "embedding", "num_types": kinds} if kinds else {
        "kind": "linear", "in_channels": 1,
    }  # fmt: skip
    model = Eigenformer.from_preset(
        "zinc-feat", layers=3, edge_encoder=encoder, psi="identity"
    ).eval()
    results = {}
    for backend in ("literal", "torch", "native"):
        model.backend = backend
        model.zero_grad()
        out = model(batch)
        out.square().sum().backward()
        # The bias of W_R cancels in the softmax and has no gradient.
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        assert len(gradients) == len([*model.parameters()]) - len(model.layers)
        results[backend] = [out.detach(), *gradients]
    scale = max(float(g.abs().max()) for g in results["literal"])
    for backend in ("torch", "native"):
        for a, b in zip(results[backend], results["literal"], strict=True):
            torch.testing.assert_close(a, b, rtol=2e-3, atol=1e-5 * scale)


class TestWhatItLeavesToTorch:
    def test_auto_is_native_for_float32_and_torch_for_the_rest(self) -> None:
        example = Example.of(Case())
        assert isinstance(make_kernel(example.graphs), NativeAttention)
        for backend in ("auto", "native"):
            assert isinstance(make_kernel(example.in_double(), backend), TorchAttention)
        with pytest.raises(TypeError, match="float32"):
            NativeAttention(example.in_double())

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        example = Example.of(Case())
        missing = None, "it was not compiled"
        monkeypatch.setattr("eigenformer.kernels.native.binding.load", lambda: missing)
        assert isinstance(make_kernel(example.graphs), TorchAttention)
        with pytest.raises(ValueError, match="not compiled"):
            make_kernel(example.graphs, "native")

    def test_returned_attention_and_given_factors(self) -> None:
        example = Example.of(Case())
        kernel = NativeAttention(example.graphs)
        terms, _ = example.terms()
        out, attention = kernel.attend(terms, return_attention=True)
        torch.testing.assert_close(out, kernel.attend(terms)[0], rtol=1e-4, atol=1e-5)
        assert attention is not None
        assert [a.shape for a in attention] == [(8, n, n) for n in example.graphs.sizes]
        keep = torch.ones(8, sum(n * n for n in example.graphs.sizes))
        torch.testing.assert_close(kernel.attend(terms, keep=keep)[0], out)

    def test_other_functions(self) -> None:
        example = Example.of(Case())
        kernel = NativeAttention(example.graphs)
        terms, _ = example.terms()
        tables = kernel.tables([(terms.phi1, torch.tanh), (terms.phi1, terms.phi2)])
        assert len(tables) == 2  # not evaluated together, but evaluated
        odd = AttentionTerms(phi1=terms.phi1, phi2=torch.cos, values=terms.values)
        expected = LiteralAttention(example.graphs).attend(odd)[0]
        torch.testing.assert_close(kernel.attend(odd)[0], expected, rtol=1e-4, atol=1e-5)
