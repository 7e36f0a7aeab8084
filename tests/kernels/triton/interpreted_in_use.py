"""The Triton kernel on the CPU, as auto, compilers and models use it: run by test_interpreter.py as
interpreted.py is.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer, LaplacianSpectrum
from eigenformer.attention import SpectrumAwareAttention
from eigenformer.kernels import (
    AttentionTerms,
    Request,
    TorchAttention,
    TritonAttention,
    choose_kernel,
)
from eigenformer.kernels.triton.comparison import disagreement, largest_difference
from tests.kernels.native.cases import Case, Example
from tests.test_synchronisation import NoWaiting, batch_for

assert os.environ["TRITON_INTERPRET"] == "1"
torch.set_num_threads(1)
# Rows outside of a graph divide by 0; nothing of them is stored.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


@pytest.mark.slow
def test_the_comparison_finds_that_they_agree() -> None:
    assert largest_difference(torch.device("cpu")) < 2e-5


@pytest.mark.parametrize(
    "mode",
    [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)],
    ids=["no_grad", "inference_mode", "autocast"],
)
def test_the_comparison_does_not_depend_on_the_caller(
    mode: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first forward pass may be one of evaluation, or of training in bf16."""
    monkeypatch.setattr("eigenformer.kernels.triton.comparison._SIZES", (1, 3))
    disagreement.cache_clear()
    with mode():
        assert disagreement(torch.device("cpu")) is None
    disagreement.cache_clear()


def test_the_comparison_has_wide_heads_and_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are kernels of their own, which a compiler may get wrong."""
    monkeypatch.setattr("eigenformer.kernels.triton.comparison._SIZES", (1, 3))
    attended = TritonAttention.attend_seeded
    seen = set()

    def attend(self: TritonAttention, terms: AttentionTerms, *others: Any) -> Tensor:
        seen.add((terms.channels > 16, terms.edges.coefficients is not None))
        return attended(self, terms, *others)

    monkeypatch.setattr(TritonAttention, "attend_seeded", attend)
    assert largest_difference(torch.device("cpu")) < 2e-5
    assert seen == {(False, False), (True, True)}


def test_its_version_needs_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch for ROCm installs Triton under another name."""

    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    assert TritonAttention.details().startswith("Triton 3.")


def test_it_is_doubted_where_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    where = "eigenformer.kernels.triton.comparison.largest_difference"
    for found, reason in ((lambda _: 0.5, "differs from 'literal' by 5.0e-01"), (1, "it fails on")):
        disagreement.cache_clear()
        monkeypatch.setattr(where, found)
        assert reason in (disagreement(device) or "")
        request = Request()
        assert reason in (TritonAttention.doubts(request) or "")
        assert choose_kernel(request, "triton") is TritonAttention  # by name, as it was told to
    disagreement.cache_clear()
    monkeypatch.setattr(where, lambda _: 1e-6)
    assert disagreement(device) is None
    disagreement.cache_clear()


@pytest.mark.slow
def test_compilers_pass_through() -> None:
    example = Example.of(Case([4, 2], heads=1, channels=2, edge_values=False, width=2))
    layer = SpectrumAwareAttention(2, heads=1, phi_width=2)
    kernel, x = TritonAttention(example.graphs), torch.randn(6, 2, requires_grad=True)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    found = [torch.autograd.grad(f(x, kernel).square().sum(), x)[0] for f in (layer, compiled)]
    torch.testing.assert_close(*found)


def test_the_operator_is_registered_correctly() -> None:
    from eigenformer.kernels.triton import ops

    example = Example.of(Case([3], heads=1, channels=2, features=True, edge_logits=True, width=2))
    given = TritonAttention(example.graphs).inputs(example.terms()[0], 0.0, torch.tensor(0))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    given = [x.detach().clone() if isinstance(x, Tensor) else x for x in given]
    torch.library.opcheck(ops.attention, tuple(given), test_utils=checks)


def test_its_backward_operator_is_registered_correctly() -> None:
    from eigenformer.kernels.triton import ops

    case = Case([3, 2], heads=2, channels=2, features=True, edge_logits=True, kinds=2, width=2)
    example = Example.of(case)
    given = TritonAttention(example.graphs).inputs(example.terms()[0], 0.3, torch.tensor(5))
    given = [x.detach().clone() if isinstance(x, Tensor) else x for x in given]
    out = ops.attention(*given)
    arguments = (*given, *out, torch.ones_like(out[0]))
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(ops.attention_backward, arguments, test_utils=checks)


@pytest.mark.slow
def test_compilers_pass_through_a_model() -> None:
    """Two layers with features, edges and dropout, whose random numbers are those without it."""
    sizes = {"layers": 2, "hidden_dim": 8, "heads": 2, "phi_width": 2}
    model = Eigenformer.from_preset("zinc-feat", backend="triton", **sizes, attention_dropout=0.3)
    batch = model.check(batch_for(model))
    found = []
    for compute in (model, torch.compile(model, backend="aot_eager")):
        torch.manual_seed(1)
        out = compute(batch)
        loss, weights = out.square().sum(), [*model.parameters()]
        found.append((out, *torch.autograd.grad(loss, weights, materialize_grads=True)))
    for mine, true in zip(*found, strict=True):
        torch.testing.assert_close(mine, true, rtol=0, atol=1e-4 * float(true.abs().max()) + 1e-5)


def test_what_it_leaves_to_torch() -> None:
    example = Example.of(Case([5, 3], heads=2, channels=3))
    kernel = TritonAttention(example.graphs)
    terms, _ = example.terms()
    out, attention = kernel.attend(terms, return_attention=True)
    expected = TorchAttention(example.graphs).attend(terms)[0]
    torch.testing.assert_close(out, expected)
    assert attention is not None
    wide = Request(channels=33)
    assert "at most 32 channels, not 33" in (TritonAttention.unsupported(wide) or "")
    with pytest.raises(TypeError, match="float32"):
        TritonAttention(example.in_double())


def test_the_cpu_waits_for_nothing() -> None:
    """Outside of the kernels, which the interpreter runs by reading from tensors."""
    example = Example.of(Case([3], heads=1, channels=2, features=True, edge_logits=True, width=1))
    terms, leaves = example.terms()
    with NoWaiting():
        out = TritonAttention(example.graphs).attend(terms, 0.5)[0]
        gradients = torch.autograd.grad(out.sum(), leaves)
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in gradients)


def test_dropout_follows_torch_seed() -> None:
    example = Example.of(Case([9], heads=1, channels=2, edge_values=False, width=2))
    kernel, (terms, _) = TritonAttention(example.graphs), example.terms()
    torch.manual_seed(3)
    first, second = kernel.attend(terms, 0.5)[0], kernel.attend(terms, 0.5)[0]
    torch.manual_seed(3)
    assert torch.equal(first, kernel.attend(terms, 0.5)[0])
    assert not torch.equal(first, second)


@pytest.mark.slow
def test_a_trained_model_predicts_the_same() -> None:
    model = Eigenformer.load(Path(__file__).parents[3] / "results" / "zinc").eval()
    torch.manual_seed(0)
    molecules = []
    for n in (9, 23):
        bond = torch.stack([torch.arange(1, n), torch.randint(100, (n - 1,)) % torch.arange(1, n)])
        kinds = torch.randint(1, 4, (n - 1,))
        edge_index, edge_attr = torch.cat([bond, bond.flip(0)], 1), torch.cat([kinds, kinds])
        molecules.append(Data(x=torch.randint(9, (n,)), edge_index=edge_index, edge_attr=edge_attr))
    batch = Batch.from_data_list([LaplacianSpectrum()(molecule) for molecule in molecules])
    predictions = {}
    for model.backend in ("literal", "native", "triton"):
        with torch.no_grad():
            predictions[model.backend] = model(batch)
    largest = predictions["literal"].abs().max()
    assert (predictions["triton"] - predictions["literal"]).abs().max() < 1e-5 * largest
    assert (predictions["triton"] - predictions["native"]).abs().max() < 1e-5 * largest
