"""Gated messages in the library: against the plain ones, bad inputs, compilers."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from eigenformer.kernels import AttentionKernel, EdgeTerms, LiteralAttention, NativeAttention
from eigenformer.kernels.native import library
from eigenformer.kernels.native.gates import GateInputs, gated_mean, gated_mean_backward
from tests.kernels.native.cases import Case, Example

KINDS = ("none", "rows", "kinds", "factors")


def results(example: Example, kernel: AttentionKernel, channels: int, edges: str) -> list[Tensor]:
    """The averages and all gradients; ``edges`` is how the edges are given."""
    torch.manual_seed(example.case.seed)
    nodes, count = sum(example.case.sizes), example.graphs.edge_index.size(1)
    rows = {"none": 0, "rows": count, "kinds": 3, "factors": 2}[edges]
    kinds, coefficients = torch.randint(3, (count,)), torch.randn(count, 2)
    weights = torch.randn(nodes, channels)
    # Gates that are nearly closed and nearly open as well.
    drawn = [4 * torch.randn(nodes, channels) for _ in range(3)]
    drawn += [4 * torch.randn(rows, 1, channels)] if rows else []
    dtype = kernel.graphs.eigenvalues.dtype
    leaves = [x.to(dtype).requires_grad_() for x in drawn]
    terms = None
    if edges != "none":
        terms = EdgeTerms(
            leaves[3],
            kinds=kinds if edges == "kinds" else None,
            coefficients=coefficients.to(dtype) if edges == "factors" else None,
        )
    out = kernel.gated_mean(*leaves[:3], terms)
    found = torch.autograd.grad((out * weights.to(dtype)).sum(), leaves)
    return [out.detach(), *found]


def check(case: Case, channels: int, edges: str) -> None:
    """Native float32 must be as near to the exact result as plain float32 is."""
    torch.set_num_threads(case.threads)
    example = Example.of(case)
    exact = results(example, LiteralAttention(example.in_double()), channels, edges)
    literal = results(example, LiteralAttention(example.graphs), channels, edges)
    native = results(example, NativeAttention(example.graphs), channels, edges)
    for a, b, c in zip(native, literal, exact, strict=True):
        if c.numel():
            off, size = float((b - c).abs().max()), float(c.abs().max())
            assert (a - c).abs().max() <= 8 * off + 1e-6 * size + 1e-7, (case, channels, edges)


@pytest.mark.parametrize("edges", KINDS)
@pytest.mark.parametrize("seed", range(10))
def test_equals_the_plain_average(seed: int, edges: str) -> None:
    channels = random.Random(seed).choice([1, 7, 8, 9, 16, 17, 24, 40, 56])
    check(Case.random(seed, largest=100), channels, edges)


@pytest.mark.parametrize("name", ["baseline", "x86_64_v3", "x86_64_v4"])
def test_every_instruction_set_is_exact(name: str) -> None:
    try:
        library().use_instructions(name)
    except ValueError as error:
        pytest.skip(str(error))
    for edges in KINDS:
        check(Case.random(5, largest=60), 19, edges)


@pytest.mark.parametrize("edges", KINDS)
def test_same_bits_every_time_on_any_number_of_threads(edges: str) -> None:
    example = Example.of(Case([50, 3, 20, 31] * 6))
    first = None
    for threads in (1, 2, 3, 3):
        torch.set_num_threads(threads)
        found = results(example, NativeAttention(example.graphs), 7, edges)
        first = first or found
        assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))


def test_many_kinds_and_many_factors_are_not_shared() -> None:
    example = Example.of(Case([40, 40]))
    count = example.graphs.edge_index.size(1)
    x = torch.randn(3, 80, 4)
    for terms in (
        EdgeTerms(torch.randn(300, 1, 4), kinds=torch.randint(300, (count,))),
        EdgeTerms(torch.randn(9, 1, 4), coefficients=torch.randn(count, 9)),
    ):
        native, plain = (
            kernel(example.graphs).gated_mean(*x, terms)
            for kernel in (NativeAttention, LiteralAttention)
        )
        torch.testing.assert_close(native, plain)


def inputs(**changes: object) -> GateInputs:
    """Good inputs, but for the changes."""
    torch.manual_seed(0)
    kernel = NativeAttention(Example.of(Case([3, 5])).graphs)
    count = len(kernel.edge_source)
    good = GateInputs(
        kernel.first_node,
        kernel.first_edge,
        kernel.edge_source,
        kernel.edge_order,
        torch.randn(count, 2),
        False,
        *torch.randn(3, 8, 4),
        torch.randn(2, 4),
    )
    return good._replace(**{name: f(getattr(good, name)) for name, f in changes.items()})  # type: ignore[operator]


BAD = {
    "values of another type": {"values": Tensor.double},
    "values in one dimension": {"values": lambda x: x[0]},
    "values of no node": {"values": lambda x: x[:0]},
    "values too short": {"values": lambda x: x[1:]},
    "target of other channels": {"target": lambda x: x[:, :3].contiguous()},
    "source not contiguous": {"source": lambda x: x.t().contiguous().t()},
    "edge of other channels": {"edge": lambda x: x[:, :3].contiguous()},
    "edge in three dimensions": {"edge": lambda x: x[None]},
    "edge of another factor": {"edge": lambda x: x[:1]},
    "no edge but coefficients": {"edge": lambda x: None},
    "coefficients too short": {"coefficients": lambda x: x[1:]},
    "coefficients in one dimension": {"coefficients": lambda x: x[:, 0]},
    "coefficients of shared rows": {"shared_rows": lambda x: True},
    "no graphs": {"first_node": lambda x: x[:1]},
    "first_node not from 0": {"first_node": lambda x: x + 1},
    "first_node descends": {"first_node": lambda x: torch.tensor([0, 9, 8])},
    "first_node with an empty graph": {"first_node": lambda x: torch.tensor([0, 0, 8])},
    "first_node too far": {"first_node": lambda x: torch.tensor([0, 3, 2**40])},
    "first_node negative": {"first_node": lambda x: torch.tensor([0, -(2**40), 8])},
    "first_edge too short": {"first_edge": lambda x: x[1:]},
    "first_edge too far": {"first_edge": lambda x: x + (x > 0) * 2**40},
    "first_edge descends": {"first_edge": lambda x: x.flip(0)},
    "edge_source elsewhere": {"edge_source": lambda x: x + 5},
    "edge_source negative": {"edge_source": lambda x: x - 2**40},
    "edge_source too short": {"edge_source": lambda x: x[1:]},
    "edge_row too far": {"edge_row": lambda x: x + 1},
    "edge_row twice": {"edge_row": lambda x: x * 0},
    "edge_row of another type": {"edge_row": Tensor.int},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_bad_inputs_are_errors(changes: dict[str, object]) -> None:
    bad = inputs(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        gated_mean(*bad)
    out, sums = gated_mean(*inputs())
    with pytest.raises(ValueError, match=r"\w"):
        gated_mean_backward(*bad, out, sums, out)


def test_bad_gradients_are_errors() -> None:
    good = inputs()
    out, sums = gated_mean(*good)
    for wrong in (out.double(), out[1:], out.t().contiguous().t()):
        for given in ((wrong, sums, out), (out, wrong, out), (out, sums, wrong)):
            with pytest.raises(ValueError, match=r"out|sums"):
                gated_mean_backward(*good, *given)


def test_opcheck() -> None:
    leaves = dict.fromkeys(["target", "source", "values", "edge"], lambda x: x.requires_grad_())
    torch.library.opcheck(gated_mean, tuple(inputs(**leaves)))
    good = inputs()
    out, sums = gated_mean(*good)
    torch.library.opcheck(gated_mean_backward, (*good, out, sums, out))


def test_compile_without_a_break() -> None:
    example = Example.of(Case())
    kernel, x = NativeAttention(example.graphs), torch.randn(3, 59, 8, requires_grad=True)

    def apply(x: Tensor) -> Tensor:
        return kernel.gated_mean(*x.sin()).square()

    found = []
    for function in (apply, torch.compile(apply, backend="aot_eager", fullgraph=True)):
        found.append(torch.autograd.grad(function(x).sum(), x)[0])
    torch.testing.assert_close(*found)
