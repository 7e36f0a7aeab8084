"""The feed-forward network that keeps its input: the same as PyTorch's, with less memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from eigenformer.feed_forward import FeedForward


def results(ffn: FeedForward, x: Tensor, plain: bool) -> list[Tensor]:
    """Output, and the gradients of input and parameters."""
    x = x.clone().requires_grad_()
    ffn.zero_grad()
    y = nn.Sequential.forward(ffn, x) if plain else ffn(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in ffn.parameters())]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_is_a_sequence_of_torch_layers(training: bool, dropout: float) -> None:
    torch.manual_seed(0)
    ffn = FeedForward(6, 10, dropout).double().train(training)
    x = torch.randn(40, 6, dtype=torch.float64)
    found = []
    for plain in (False, True):
        torch.manual_seed(1)
        found.append(results(ffn, x, plain))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_gradient_in_float64() -> None:
    torch.manual_seed(0)
    ffn = FeedForward(3, 5).double()
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: ffn(x), (x, *ffn.parameters()))


def test_keeps_nothing_as_large_as_its_hidden_units() -> None:
    kept: list[Tensor] = []
    ffn = FeedForward(4, 50)
    x = torch.randn(20, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        ffn(x)
    assert max(t.numel() for t in kept) == ffn[0].weight.numel()
    assert any(t.data_ptr() == x.data_ptr() for t in kept)


def test_autocast_is_left_to_torch() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = FeedForward(4, 8)(torch.randn(5, 4, requires_grad=True))
    assert y.dtype == torch.bfloat16
