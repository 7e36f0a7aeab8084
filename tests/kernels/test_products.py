"""Products for ψ, on devices with and without float64."""

from __future__ import annotations

import pytest
import torch

from eigenformer.kernels.products import exact_products


def test_without_float64_they_are_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 20, 10)
    # Sums that cancel to a thousandth of their terms, or to much less.
    q[..., 5:], k[..., 5:] = q[..., :5], -k[..., :5] * (1 + 2e-3 * torch.rand(3, 20, 5))
    q.requires_grad_()
    k.requires_grad_()
    expected = exact_products(q, k, 0.5)
    gradients = torch.autograd.grad(expected.sin().sum(), (q, k))
    monkeypatch.setattr("eigenformer.kernels.products.has_float64", lambda _: False)
    found = exact_products(q, k, 0.5)
    # Wrong in the last digit at most, or by far less than a digit of what was summed.
    sizes = q.abs() @ k.abs().mT
    assert (found - expected).abs().le(1.3e-7 * expected.abs() + 2**-45 * sizes).all()
    assert (0.5 * q @ k.mT - expected).abs().gt(2**-26 * sizes).any()
    torch.testing.assert_close(torch.autograd.grad(found.sin().sum(), (q, k)), gradients)
