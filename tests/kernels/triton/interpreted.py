"""The Triton kernel on the CPU, against the oracle: run by test_interpreter.py in a process of its
own, because ``TRITON_INTERPRET=1`` must be set before Triton is imported.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import torch

from eigenformer.kernels import LiteralAttention, TritonAttention
from eigenformer.kernels.native import load
from eigenformer.kernels.triton.layout import BLOCK
from tests.kernels.native.cases import Case, Example
from tests.kernels.native.test_kernel import check

assert os.environ["TRITON_INTERPRET"] == "1"
torch.set_num_threads(1)
needs_native = pytest.mark.skipif(load()[0] is None, reason="native dropout: " + load()[1])
# Rows outside of a graph divide by 0; nothing of them is stored.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


# Every option, and sizes at every border of a tile, in as few cases as will do. Wide heads have
# tiles of half as many rows.
EVERYTHING = Case(
    [BLOCK + 1, 5], heads=2, channels=3, features=True, edge_logits=True, kinds=4, width=12,
    dropout=0.3,
)  # fmt: skip
WIDE = Case([BLOCK], heads=2, channels=20, features=True, edge_logits=True, dropout=0.3, width=4)
CASES = {
    "spectrum alone": Case([BLOCK, 1], heads=1, channels=7, edge_values=False, depth=1, width=4),
    "wide heads, factors": Case(
        [BLOCK // 2 + 1], heads=1, channels=17, features=True, psi=False, edge_logits=True,
        factors=2, k=3, width=4,
    ),
}  # fmt: skip
MORE = {
    "without dropout": dataclasses.replace(EVERYTHING, dropout=0.0),
    "one less than a tile": Case([BLOCK - 1, 2], heads=3, channels=8, fraction=0.5),
    "three tiles": Case([2 * BLOCK + 1], heads=1, features=True, edge_logits=True, seed=3),
    "two tiles exactly": Case([2 * BLOCK], heads=1, channels=16, features=True, psi=False),
    "edges with rows of their own": Case([9, 3], heads=2, edge_logits=True, channels=1),
    "logits without values": Case([12], heads=2, edge_values=False, edge_logits=True, kinds=3),
    "values without logits": Case([12, 33], heads=2, kinds=1, factors=0),
    "eleven factors": Case([12], heads=2, factors=11, edge_logits=True),
    "wide": Case([20], heads=1, channels=32, features=True, depth=3, width=4),
    "without edges": Case([BLOCK + 1, 4], heads=2, features=True, edge_values=False),
    "narrow, edge values alone": Case([BLOCK + 1, 4], heads=2, features=True, kinds=3),
    "factors without dropout": Case([12, BLOCK + 1], heads=2, factors=3),
    "wide, the border of a tile": dataclasses.replace(WIDE, sizes=[BLOCK, 2]),
    "wide, one more than a tile": dataclasses.replace(WIDE, sizes=[BLOCK + 1], channels=17),
    "wide, three half tiles and one": dataclasses.replace(WIDE, sizes=[49], channels=32, kinds=3),
    "a few hundred": Case([230, 3], heads=1, channels=5, features=True, edge_logits=True, k=20),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_equals_the_literal_kernel(case: Case) -> None:
    check(case, TritonAttention)


@needs_native
def test_equals_the_literal_kernel_with_dropout_of_the_native_kernel() -> None:
    check(EVERYTHING, TritonAttention)


@pytest.mark.slow
def test_products_are_exact_to_the_last_digit() -> None:
    """What ψ' asks for: products of float32 numbers that nearly cancel."""
    torch.manual_seed(0)
    example = Example.of(Case([40], heads=1, channels=10, features=True, edge_values=False))
    q, k = torch.randn(2, 40, 1, 10)
    k[:, :, 5:] = -k[:, :, :5] * (1 + 2e-4 * torch.rand(40, 1, 5))
    q[:, :, 5:] = q[:, :, :5]
    example.tensors.update(queries=q, keys=k)
    seed = torch.tensor(0)
    exact = example.results(LiteralAttention(example.in_double()), None, seed)
    found = example.results(TritonAttention(example.graphs), None, seed)
    for a, b in zip(found[:4], exact[:4], strict=True):
        assert float((a - b).abs().max() / b.abs().max()) < 2e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_equals_the_literal_kernel_with_other_options(name: str) -> None:
    case = MORE[name]
    if case.dropout and load()[0] is None:
        pytest.skip("native dropout: " + load()[1])
    check(case, TritonAttention)


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_equals_the_literal_kernel_at_random(seed: int) -> None:
    case = Case.random(seed, largest=100)
    case.heads, case.sizes = min(case.heads, 3), case.sizes[-3:]
    check(case, TritonAttention)


@pytest.mark.slow
def test_more_than_two_billion_parts_are_added(tmp_path: Path) -> None:
    """The parts lie in a sparse file. A place that overflows to a negative one is in it, too."""
    from eigenformer.kernels.triton.backward import sum_importance

    blocks, heads = 17, 2**27
    whole = torch.from_file(str(tmp_path / "parts"), True, 2**32 + 1)
    parts = whole[2**31 :]
    parts[0], parts[(blocks - 1) * heads], whole[0] = 1.0, 2.0, 100.0
    found = torch.zeros(1)
    first_node, first_frequency = torch.tensor([[0, blocks * BLOCK], [0, 1]], dtype=torch.int32)
    first_part = torch.zeros(1, dtype=torch.int64)
    given = (found, parts, first_node, first_frequency, first_part, heads)
    sum_importance[(1, 1)](*given, BLOCK=BLOCK)
    assert found.item() == 3.0


@pytest.mark.slow
def test_values_may_be_half_as_wide() -> None:
    """Given the same rounded values, only the gradient of the values is rounded."""
    case = Case([BLOCK + 1, 5], heads=2, channels=4, features=True, edge_logits=True, kinds=2)
    example = Example.of(case)
    example.tensors["values"] = example.tensors["values"].bfloat16().float()
    found = []
    for kernel in (TritonAttention(example.graphs), LiteralAttention(example.graphs)):
        terms, leaves = example.terms()
        if isinstance(kernel, TritonAttention):
            leaves[0] = terms.values.detach().bfloat16().requires_grad_()
            terms = dataclasses.replace(terms, values=leaves[0])
        out = kernel.attend(terms)[0]
        found.append((out, *torch.autograd.grad((out * example.weights).sum(), leaves)))
    (out, half, *gradients), (exact_out, exact_half, *exact) = found
    assert (out.dtype, half.dtype) == (torch.float32, torch.bfloat16)
    # The interpreter cuts off the digits that bf16 does not have.
    torch.testing.assert_close(half.float(), exact_half, rtol=2**-7, atol=1e-5)
    for mine, true in zip((out, *gradients), (exact_out, *exact), strict=True):
        torch.testing.assert_close(mine, true, rtol=0, atol=2e-5 * float(true.abs().max() + 0.1))
