"""What rounding may do to gradients: at the knots of φ₁ and φ₂, and in sums that cancel.

The gradient of a ReLU network jumps at its knots. A score that equals a knot up to rounding may lie
on one side of it in one implementation and on the other side in another, and both are right: their
gradients differ by the jump. How much that can be is computed here, in float64, from the pairs of
nodes and the eigenvalues that lie so near to a knot.

The gradient of a parameter of φ₁ is a sum over all pairs, and may cancel: that of the last bias is
always 0, and so is that of a unit which is active on all pairs. What float32 may lose in a sum is
relative to the sum of the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.func import grad, vmap

from eigenformer.kernels import LiteralAttention
from eigenformer.scalar_mlp import ScalarMLP
from tests.kernels.native.cases import Example

# How far a knot that was computed in float32 is from where it should be, relative to its size.
KNOT_ROUNDING = 2**-22
# What float32 may lose in a sum, relative to the sum of the sizes.
SUM_ROUNDING = 2**-23
# Far less than any rounding in float32, and far more than that in float64.
_STEP = 1e-10
# Pairs at a time, each with the gradients of all parameters.
_PAIRS = 4096


class Recorded:
    """A scalar function that remembers where it was evaluated."""

    def __init__(self, function: ScalarMLP) -> None:
        self.function = function

    def __call__(self, x: Tensor) -> Tensor:
        self.x, self.y = x.detach(), self.function(x)
        return self.y


def allowances(example: Example, keep: Tensor | None) -> list[Tensor]:
    """How far the gradient of each parameter may be off for that reason: φ₁'s, then φ₂'s."""
    kernel = LiteralAttention(example.in_double())
    terms, _ = example.terms(torch.float64)
    phi1, phi2 = Recorded(terms.phi1), Recorded(terms.phi2)
    terms = replace(terms, phi1=phi1, phi2=phi2)
    out = kernel.attend(terms, keep=None if keep is None else keep.double())[0]
    d_logits, d_importance = torch.autograd.grad((out * example.weights).sum(), (phi1.y, phi2.y))
    # Native scores may be twice as far from the exact ones as those of the oracle in float32.
    rounded = LiteralAttention(example.graphs).scores(example.phi2, example.case.heads)
    scores_off = 2 * (rounded - phi1.x).detach().abs().flatten(1).amax(1)
    u = kernel.padded.eigenvectors
    found1, found2 = (
        [torch.zeros_like(p) for p in phi.function.parameters()] for phi in (phi1, phi2)
    )
    for head in range(example.case.heads):
        reach = torch.zeros_like(d_importance[head])
        d = d_logits[head].flatten().abs()
        for part, x in zip(d.split(_PAIRS), phi1.x[head].flatten().split(_PAIRS), strict=True):
            of_parameters = gradients(phi1.function, head, x)[:-1]
            sizes = [torch.tensordot(part, of.abs(), 1) for of in of_parameters]
            add(found1, head, torch.tensor(SUM_ROUNDING), sizes)
        for pairs, jumps in near_knots(phi1, head, float(scores_off[head])):
            *of_parameters, of_slope = jumps
            add(found1, head, d[pairs].sum(), of_parameters)
            # By the slope the gradient of a score goes on to φ₂(λ_k), as far as u_k[i] u_k[j].
            graph, i, j = torch.unravel_index(pairs, d_logits.shape[1:])
            to_each = (d[pairs] * of_slope)[:, None] * (u[graph, i] * u[graph, j]).abs()
            reach.index_add_(0, graph, to_each)
        at = reach.flatten().nonzero().squeeze(1)
        for k, *of_parameters in zip(
            at, *gradients(phi2.function, head, phi2.x[head].flatten()[at])[:-1], strict=True
        ):
            add(found2, head, reach.flatten()[k], of_parameters)
        for values, jumps in near_knots(phi2, head, 0.0):
            add(found2, head, d_importance[head].flatten()[values].abs().sum(), jumps[:-1])
    return [*found1, *found2]


def near_knots(phi: Recorded, head: int, off: float) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """For every knot with points so near to it: these, and how far the gradients jump there."""
    x, order = phi.x[head].flatten().sort()
    low, high = phi.x.aminmax()
    knots = phi.function.linear_pieces(low, high).knots[head]
    knots = knots[knots < high]  # what comes after is padding
    width = off + KNOT_ROUNDING * knots.abs()
    first, last = torch.searchsorted(x, knots - width), torch.searchsorted(x, knots + width)
    for knot, a, b in zip(knots, first, last, strict=True):
        if a < b:
            sides = gradients(phi.function, head, torch.stack([knot - _STEP, knot + _STEP]))
            yield order[a:b], [(left - right).abs() for left, right in sides]


def gradients(function: ScalarMLP, head: int, x: Tensor) -> list[Tensor]:
    """At each x, in one head: the gradients of all parameters, and the slope."""

    def value(parameters: Sequence[Tensor], x: Tensor) -> Tensor:
        half = len(parameters) // 2
        hidden = x[None]
        for weight, bias in zip(parameters[:half], parameters[half:], strict=True):
            last = weight @ hidden + bias
            hidden = last.relu()
        return last[0]

    parameters = [p.detach()[head] for p in function.parameters()]
    of_parameters, slope = vmap(grad(value, (0, 1)), (None, 0))(parameters, x)
    return [*of_parameters, slope]


def add(totals: list[Tensor], head: int, weight: Tensor, jumps: Sequence[Tensor]) -> None:
    """Adds |weight · jump| to each parameter's total."""
    for total, jump in zip(totals, jumps, strict=True):
        total[head] += (weight * jump).abs()
