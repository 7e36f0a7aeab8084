"""Which kernel computes what: each says itself what it does not do, and why."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from eigenformer.kernels import KERNELS, NativeAttention, Request, choose_kernel, why_not
from eigenformer.kernels.native import load
from eigenformer.options import Backend

needs_library = pytest.mark.skipif(load()[0] is None, reason=load()[1])

BEYOND_NATIVE = {
    "float32 only, not in float64": Request(torch.float64),
    "float32 only, not in bfloat16": Request(torch.bfloat16),
    "CPU only, not on 'cuda'": Request(device="cuda"),
    "signed square root": Request(psi=torch.tanh),
    "draws the factors of dropout itself": Request(keep=True),
    "never stores the attention weights": Request(return_attention=True),
}


def test_every_option_is_the_name_of_one_kernel() -> None:
    assert sorted(get_args(Backend)) == sorted(["auto", *(kernel.name for kernel in KERNELS)])
    for kernel in KERNELS:
        assert kernel.__name__.lower() == f"{kernel.name}attention"
        assert kernel.__module__.startswith(f"eigenformer.kernels.{kernel.name}")


@pytest.mark.parametrize(("reason", "request_"), BEYOND_NATIVE.items())
def test_what_native_does_not_do_goes_to_torch(reason: str, request_: Request) -> None:
    assert reason in (NativeAttention.unsupported(request_) or "")
    assert choose_kernel(request_).name == "torch"
    assert choose_kernel(request_, "literal").name == "literal"


@needs_library
def test_the_fastest_comes_first() -> None:
    assert why_not(NativeAttention, Request()) is None
    assert choose_kernel(Request()).name == "native"
    for kernel in KERNELS:
        assert choose_kernel(Request(), kernel.name) is kernel


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = None, "it was not compiled"
    monkeypatch.setattr("eigenformer.kernels.native.binding.load", lambda: missing)
    assert why_not(NativeAttention, Request()) == "it was not compiled"
    assert choose_kernel(Request()).name == "torch"
    with pytest.raises(ValueError, match="backend: 'native': it was not compiled"):
        choose_kernel(Request(), "native")


def test_an_unknown_kernel_is_an_error() -> None:
    with pytest.raises(ValueError, match="backend: 'litteral': unknown; the nearest is 'literal'"):
        choose_kernel(Request(), "litteral")  # type: ignore[arg-type]
