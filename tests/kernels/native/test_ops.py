"""The operators: bad inputs are errors, compilers pass through."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from eigenformer.kernels import NativeAttention
from eigenformer.kernels.native import library, ops
from tests.kernels.native.cases import Case, Example, inputs

BAD = {
    "values of another type": {"values": Tensor.double},
    "values without channels": {"values": lambda x: x[..., 0]},
    "values of no node": {"values": lambda x: x[:0]},
    "values not contiguous": {"values": lambda x: x.mT.contiguous().mT},
    "queries too short": {"queries": lambda x: x[1:]},
    "queries missing": {"queries": lambda x: None},
    "keys of half precision": {"keys": Tensor.half},
    "eigenvectors too short": {"eigenvectors": lambda x: x[1:]},
    "eigenvectors too long": {"eigenvectors": lambda x: torch.cat([x, x])},
    "importance of another head": {"importance": lambda x: x[:, :1].contiguous()},
    "importance too short": {"importance": lambda x: x[1:]},
    "knots not sorted": {"knots": lambda x: x.flip(1).contiguous()},
    "knots not finite": {"knots": lambda x: torch.full_like(x, torch.nan)},
    "slopes too few": {"slopes": lambda x: x[:, 1:].contiguous()},
    "slopes none": {"slopes": lambda x: x[:, :0]},
    "intercepts not contiguous": {"intercepts": lambda x: x.T.contiguous().T},
    "no graphs": {"first_node": lambda x: x[:1], "first_frequency": lambda x: x[:1]},
    "first_node empty": {"first_node": lambda x: x[:0]},
    "first_node of another type": {"first_node": Tensor.int},
    "first_node not from 0": {"first_node": lambda x: x + 1},
    "first_node descends": {"first_node": lambda x: torch.tensor([0, 9, 8])},
    "first_node with an empty graph": {"first_node": lambda x: torch.tensor([0, 0, 8])},
    "first_node too far": {"first_node": lambda x: torch.tensor([0, 3, 2**40])},
    "first_node negative": {"first_node": lambda x: torch.tensor([0, -(2**40), 8])},
    "first_node elsewhere": {"first_node": lambda x: torch.tensor([0, 5, 8])},
    "first_frequency too far": {"first_frequency": lambda x: torch.tensor([0, 3, 2**40])},
    "first_frequency huge": {"first_frequency": lambda x: torch.tensor([0, 2**62, 2**62])},
    "first_edge descends": {"first_edge": lambda x: x.flip(0)},
    "first_edge too far": {"first_edge": lambda x: x + 2**40 * (x > 0)},
    "edge_source outside": {"edge_source": lambda x: x + 5},
    "edge_source negative": {"edge_source": lambda x: x - 2**40},
    "edge_kind outside": {"edge_kind": lambda x: x + 1},
    "edge_kind negative": {"edge_kind": lambda x: -x - 1},
    "edge_kind repeated": {"edge_kind": lambda x: x * 0},
    "edge_kind too short": {"edge_kind": lambda x: x[1:]},
    "edge_logits too many": {"edge_logits": lambda x: torch.cat([x, x])},
    "edge_values too few": {"edge_values": lambda x: x[1:]},
    "dropout of 1": {"dropout": lambda x: 1.0},
    "dropout negative": {"dropout": lambda x: -0.1},
    "dropout not a number": {"dropout": lambda x: float("nan")},
    "psi unknown": {"psi": lambda x: 7},
    "psi without features": {"psi": lambda x: 0},
}


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD.keys())
def test_bad_inputs_are_errors(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        ops.attention(*inputs(**changes))
    good = inputs()
    outputs = ops.attention(*good)
    with pytest.raises((ValueError, RuntimeError)):
        ops.attention_backward(*inputs(**changes), *outputs, torch.ones_like(outputs[0]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.double(),
        lambda x: x[1:],
        lambda x: x[0],
        lambda x: x[:, :1].contiguous(),
        lambda x: x[:, :0].contiguous(),
        lambda x: torch.cat([x, x], 1),
        lambda x: x.T.contiguous().T,
    ],
)
def test_bad_coefficients_are_errors(wrong: Callable[[Tensor], Tensor]) -> None:
    example = Example.of(Case([3, 5], heads=2, channels=3, edge_logits=True, factors=2, seed=1))
    good = NativeAttention(example.graphs).inputs(example.terms()[0], 0.0, torch.tensor(0))
    good = ops.Inputs(*(x.detach() if isinstance(x, Tensor) else x for x in good))
    assert good.edge_coefficients is not None
    outputs = ops.attention(*good)
    for bad in (
        good._replace(edge_coefficients=wrong(good.edge_coefficients)),
        good._replace(edge_values=None),
        good._replace(shared_kinds=True),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            ops.attention(*bad)
        with pytest.raises(ValueError, match=r"\w"):
            ops.attention_backward(*bad, *outputs, torch.ones_like(outputs[0]))


def test_the_library_itself_refuses_coefficients_of_nothing() -> None:
    example = Example.of(Case([3, 5], heads=2, channels=3, edge_logits=True, factors=2, seed=1))
    good = NativeAttention(example.graphs).inputs(example.terms()[0], 0.0, torch.tensor(0))
    outputs = ops._outputs(good)
    call = ops._call(good, outputs)
    library().forward(call)
    call.edge_values = call.edge_logits = None
    with pytest.raises(ValueError, match="coefficients go with factors"):
        library().forward(call)


def test_only_what_is_attended_has_a_gradient() -> None:
    out, *others = ops.attention(*inputs(values=lambda x: x.clone().requires_grad_()))
    assert out.requires_grad
    assert not any(x.requires_grad for x in others)


def test_bad_gradient_is_an_error() -> None:
    good = inputs()
    outputs = ops.attention(*good)
    for wrong in (outputs[0].double(), outputs[0][1:], outputs[0].mT.contiguous().mT):
        with pytest.raises(ValueError, match="d_out"):
            ops.attention_backward(*good, *outputs, wrong)


def test_bad_pieces_are_errors() -> None:
    x, knots, slopes = torch.rand(5), torch.rand(4, 2).sort().values, torch.rand(4, 3)
    assert ops.evaluate_pieces(x, knots, slopes, slopes, 2).shape == (2, 5, 2)
    assert ops.evaluate_pieces(x[:0], knots, slopes, slopes, 2).shape == (2, 0, 2)
    for wrong in (
        (x.double(), knots, slopes, slopes, 2),
        (x, knots[:, :1].contiguous(), slopes, slopes, 2),
        (x, knots.flip(1).contiguous(), slopes, slopes, 2),
        (x, knots, slopes, slopes[1:], 2),
        (x, knots, slopes, slopes, 3),
        (x, knots, slopes, slopes, 0),
        (x[None], knots, slopes, slopes, 2),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            ops.evaluate_pieces(*wrong)


class TestCompilers:
    def test_opcheck(self) -> None:
        differentiable = {"importance", "slopes", "intercepts", "values", "queries", "keys"}
        differentiable |= {"edge_logits", "edge_values"}
        arguments = inputs(
            **{name: lambda x: x.clone().requires_grad_() for name in differentiable}
        )
        torch.library.opcheck(ops.attention, arguments)
        outputs = [x.detach() for x in ops.attention(*arguments)]
        plain = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
        torch.library.opcheck(ops.attention_backward, (*plain, *outputs, outputs[0]))

    def test_opcheck_of_pieces(self) -> None:
        slopes = torch.rand(4, 3, requires_grad=True)
        knots = torch.rand(4, 2).sort().values
        torch.library.opcheck(
            ops.evaluate_pieces, (torch.rand(5), knots, slopes, slopes.detach(), 2)
        )

    def test_compile_without_a_break(self) -> None:
        example = Example.of(Case(features=True, edge_logits=True))
        kernel = NativeAttention(example.graphs)
        terms, leaves = example.terms()
        arguments = kernel.inputs(terms, 0.3, torch.tensor(1))

        def attend(values: Tensor) -> Tensor:
            return ops.attention(*arguments._replace(values=values.relu()))[0].square()

        compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
        for function in (attend, compiled):
            terms.values.grad = None
            function(terms.values).sum().backward(retain_graph=True)
            leaves.append(terms.values.grad.clone())
        torch.testing.assert_close(leaves[-1], leaves[-2])

    def test_export(self) -> None:
        arguments = inputs()

        class Attend(nn.Module):
            def forward(self, values: Tensor) -> Tensor:
                return ops.attention(*arguments._replace(values=values))[0]

        program = torch.export.export(Attend(), (arguments.values,))
        expected = ops.attention(*arguments)[0]
        assert torch.equal(program.module()(arguments.values), expected)


REAL = ("eigenvectors", "importance", "knots", "slopes", "intercepts", "values", "queries", "keys",
        "edge_logits", "edge_values")  # fmt: skip


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 3e38])
@pytest.mark.parametrize("name", REAL)
def test_broken_numbers_are_seen_or_refused(name: str, bad: float) -> None:
    def spoil(x: Tensor) -> Tensor:
        return x.flatten().index_fill(0, torch.tensor([0, x.numel() - 1]), bad).view_as(x)

    arguments = inputs(**{name: spoil})
    if name == "knots":
        with pytest.raises(ValueError, match="knots must be finite and ascend"):
            ops.attention(*arguments)
        return
    outputs = ops.attention(*arguments)
    gradients = ops.attention_backward(*arguments, *outputs, torch.ones_like(outputs[0]))
    # -∞ as a logit is an honest 0 of attention; a huge number is huge, not broken.
    if bad != bad or (bad > 3e38 and name != "edge_logits"):
        assert not outputs[0].isfinite().all()
        assert not all(x.isfinite().all() for x in gradients)
