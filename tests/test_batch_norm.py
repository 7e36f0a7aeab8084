"""Batch norm that keeps its output: the same as PyTorch's, with less memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eigenformer.batch_norm import BatchNorm


def results(norm: nn.BatchNorm1d, x: Tensor, d_y: Tensor) -> list[Tensor]:
    """Two steps: outputs, gradients, running statistics."""
    found = []
    for part in (x, 2 * x + 1):
        part = part.clone().requires_grad_()
        y = norm(part)
        y.backward(d_y)
        found += [y.detach(), part.grad]
    return [*found, norm.running_mean, norm.running_var, norm.num_batches_tracked]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"momentum": None}, {"eps": 0.5}, {"affine": True}, {"momentum": 0.3}]
)
def test_is_torch_batch_norm(dtype: torch.dtype, training: bool, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    x = (3 * torch.randn(40, 6) + torch.arange(6)).to(dtype)
    d_y = torch.randn(40, 6, dtype=dtype)
    options = {"affine": False, **options}
    ours, theirs = (
        results(kind(6, **options).to(dtype).train(training), x, d_y)
        for kind in (BatchNorm, nn.BatchNorm1d)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_gradient_in_float64() -> None:
    torch.manual_seed(0)
    norm = BatchNorm(3, affine=False).double()
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, (x,))


def test_keeps_its_output_and_not_its_input() -> None:
    kept = set()

    def keep(x: Tensor) -> Tensor:
        kept.add(x.data_ptr())
        return x

    x = torch.randn(20, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        y = BatchNorm(4, affine=False)(x)
    assert y.data_ptr() in kept
    assert x.data_ptr() not in kept


def test_compiles_in_one_graph() -> None:
    torch.manual_seed(0)
    plain, inner = BatchNorm(4, affine=False), BatchNorm(4, affine=False)
    compiled = torch.compile(inner, backend="aot_eager", fullgraph=True)
    found = []
    for norm in (plain, compiled):
        x = torch.linspace(-1, 2, 36).reshape(9, 4).requires_grad_()
        norm(x.sin()).square().sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)
    torch.testing.assert_close(plain.running_mean, inner.running_mean)
    assert int(inner.num_batches_tracked) == 1
