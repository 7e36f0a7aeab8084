"""Filters in the library: against the plain ones, bad inputs, compilers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigenformer.kernels import AttentionKernel, LiteralAttention, NativeAttention
from eigenformer.kernels.native import library
from eigenformer.kernels.native.filters import filter_backward, filter_nodes
from tests.kernels.native.cases import Case, Example

Inputs = dict[str, Tensor]


def results(example: Example, kernel: AttentionKernel) -> list[Tensor]:
    """The importance, the filtered values and the gradients of values and φ."""
    terms, _ = example.terms(kernel.graphs.eigenvalues.dtype)
    (importance,) = kernel.importances([terms.phi2], terms.heads)
    out = kernel.filter(terms.values, importance)
    leaves = [terms.values, *terms.phi2.parameters()]
    gradients = torch.autograd.grad((out * example.weights.to(out.dtype)).sum(), leaves)
    return [importance.detach(), out.detach(), *gradients]


def check(case: Case) -> None:
    """Native float32 must be as near to the exact result as plain float32 is."""
    torch.set_num_threads(case.threads)
    example = Example.of(case)
    exact = results(example, LiteralAttention(example.in_double()))
    literal = results(example, LiteralAttention(example.graphs))
    native = results(example, NativeAttention(example.graphs))
    scale = max(float(x.abs().max()) for x in exact)
    for a, b, c in zip(native, literal, exact, strict=True):
        off, size = float((b - c).abs().max()), float(c.abs().max())
        assert (a - c).abs().max() <= 8 * off + 1e-6 * size + 1e-7 * scale, case


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_literal_filter(seed: int) -> None:
    check(Case.random(seed, largest=100))


@pytest.mark.parametrize("channels", [1, 3, 8, 9, 16, 17, 24, 40])
def test_equals_the_literal_filter_for_every_rest_of_a_panel(channels: int) -> None:
    for heads in (1, 3):
        check(Case([1, 2, 3, 4, 5, 6, 7, 13], heads=heads, channels=channels))


@pytest.mark.parametrize("name", ["baseline", "x86_64_v3", "x86_64_v4"])
def test_every_instruction_set_is_exact(name: str) -> None:
    try:
        library().use_instructions(name)
    except ValueError as error:
        pytest.skip(str(error))
    for seed in range(6):
        check(Case.random(seed, largest=60))


def test_same_bits_every_time_on_any_number_of_threads() -> None:
    example = Example.of(Case([150, 3, 20, 31], heads=5, channels=7))
    first = None
    for threads in (1, 2, 3, 3):
        torch.set_num_threads(threads)
        found = results(example, NativeAttention(example.graphs))
        first = first or found
        assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))


def test_values_and_importance_need_not_be_contiguous() -> None:
    example = Example.of(Case())
    kernel, values = NativeAttention(example.graphs), example.tensors["values"]
    importance = torch.randn(len(example.graphs.eigenvalues), 8)
    expected = kernel.filter(values, importance)
    strided = values.mT.contiguous().mT, importance.t().contiguous().t()
    assert torch.equal(kernel.filter(*strided), expected)


def inputs(**changes: object) -> Inputs:
    """Good inputs, but for the changes."""
    kernel = NativeAttention(Example.of(Case([3, 5])).graphs)
    good = {
        "first_node": kernel.first_node,
        "first_frequency": kernel.first_frequency,
        "eigenvectors": kernel.eigenvectors,
        "importance": torch.randn(8, 2),
        "values": torch.randn(8, 2, 3),
    }
    return good | {name: change(good[name]) for name, change in changes.items()}  # type: ignore[operator]


BAD = {
    "values of another type": {"values": Tensor.double},
    "values without channels": {"values": lambda x: x[..., 0]},
    "values of no node": {"values": lambda x: x[:0]},
    "values of no channel": {"values": lambda x: x[..., :0]},
    "values not contiguous": {"values": lambda x: x.mT.contiguous().mT},
    "values too short": {"values": lambda x: x[1:]},
    "eigenvectors too short": {"eigenvectors": lambda x: x[1:]},
    "eigenvectors too long": {"eigenvectors": lambda x: torch.cat([x, x])},
    "eigenvectors as a matrix": {"eigenvectors": lambda x: x[None]},
    "importance of another filter": {"importance": lambda x: x[:, :1].contiguous()},
    "importance too short": {"importance": lambda x: x[1:]},
    "importance of another type": {"importance": Tensor.half},
    "importance of one filter": {"importance": lambda x: x[:, 0]},
    "no graphs": {"first_node": lambda x: x[:1], "first_frequency": lambda x: x[:1]},
    "first_node of another type": {"first_node": Tensor.int},
    "first_node not from 0": {"first_node": lambda x: x + 1},
    "first_node descends": {"first_node": lambda x: torch.tensor([0, 9, 8])},
    "first_node with an empty graph": {"first_node": lambda x: torch.tensor([0, 0, 8])},
    "first_node too far": {"first_node": lambda x: torch.tensor([0, 3, 2**40])},
    "first_node negative": {"first_node": lambda x: torch.tensor([0, -(2**40), 8])},
    "first_node elsewhere": {"first_node": lambda x: torch.tensor([0, 5, 8])},
    "first_frequency too far": {"first_frequency": lambda x: torch.tensor([0, 3, 2**40])},
    "first_frequency huge": {"first_frequency": lambda x: torch.tensor([0, 2**62, 2**62])},
    "first_frequency too short": {"first_frequency": lambda x: x[1:]},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_bad_inputs_are_errors(changes: dict[str, object]) -> None:
    good, bad = inputs(), inputs(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        filter_nodes(**bad)
    _, modes = filter_nodes(**good)
    d_out = bad.pop("values")
    with pytest.raises(ValueError, match=r"\w"):
        filter_backward(**bad, modes=modes, d_out=d_out)


def test_bad_modes_are_errors() -> None:
    good = inputs()
    d_out, modes = filter_nodes(**good)
    del good["values"]
    for wrong in (modes.double(), modes[1:], modes[:, :1].contiguous(), modes.mT.contiguous().mT):
        with pytest.raises(ValueError, match="modes"):
            filter_backward(**good, modes=wrong, d_out=d_out)


def test_graphs_without_frequencies_are_filtered_to_nothing() -> None:
    changes = {
        "first_frequency": lambda x: x * 0,
        "eigenvectors": lambda x: x[:0],
        "importance": lambda x: x[:0],
    }
    assert torch.equal(filter_nodes(**inputs(**changes))[0], torch.zeros(8, 2, 3))


def test_opcheck() -> None:
    leaves = dict.fromkeys(["importance", "values"], lambda x: x.clone().requires_grad_())
    torch.library.opcheck(filter_nodes, tuple(inputs(**leaves).values()))
    good = inputs()
    out, modes = filter_nodes(**good)
    del good["values"]
    torch.library.opcheck(filter_backward, (*good.values(), modes, out))


def test_compile_without_a_break() -> None:
    example = Example.of(Case())
    kernel, (terms, _) = NativeAttention(example.graphs), example.terms()

    def apply(values: Tensor) -> Tensor:
        (importance,) = kernel.importances([terms.phi2], terms.heads)
        return kernel.filter(values.relu(), importance).square()

    found = []
    for function in (apply, torch.compile(apply, backend="aot_eager", fullgraph=True)):
        leaves = [terms.values, *terms.phi2.parameters()]
        found.append(torch.autograd.grad(function(terms.values).sum(), leaves))
    for mine, compiled in zip(*found, strict=True):
        torch.testing.assert_close(mine, compiled)
