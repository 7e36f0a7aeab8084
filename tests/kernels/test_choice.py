"""Which kernel computes what: each says itself what it does not do, and why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast, get_args

import pytest
import torch

from eigenformer.kernels import (
    KERNELS,
    NativeAttention,
    Request,
    TritonAttention,
    choose_kernel,
    make_kernel,
    why_not,
)
from eigenformer.kernels.native import load
from eigenformer.options import Backend
from eigenformer.ragged import RaggedGraphs

needs_library = pytest.mark.skipif(load()[0] is None, reason=load()[1])

GPU = torch.device("cuda")
BEYOND_NATIVE = {
    "float32 only, not in float64": Request(torch.float64),
    "float32 only, not in bfloat16": Request(torch.bfloat16),
    "CPU only, not on 'cuda'": Request(device=GPU),
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
        if kernel is not TritonAttention:
            assert choose_kernel(Request(), kernel.name) is kernel


def test_a_gpu_uses_triton_where_it_is_not_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Request(device=GPU)
    monkeypatch.setattr(TritonAttention, "unavailable", lambda: None)
    for doubt, chosen in ((None, "triton"), ("it differs from 'literal'", "torch")):
        monkeypatch.setattr(TritonAttention, "doubts", lambda _, doubt=doubt: doubt)
        assert choose_kernel(gpu).name == chosen
        assert choose_kernel(gpu, "triton").name == "triton"  # whoever names it gets it
    for request in (Request(), Request(torch.float64, GPU), Request(device=torch.device("mps"))):
        assert choose_kernel(request, "triton") is not TritonAttention


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "Triton is not installed" in (TritonAttention.unavailable() or "")
    assert choose_kernel(Request(device=GPU)).name == "torch"
    with pytest.raises(ValueError, match="backend: 'triton': Triton is not installed"):
        choose_kernel(Request(), "triton")


def test_without_a_gpu_there_is_a_doubt() -> None:
    if not torch.cuda.is_available():
        assert "no GPU to compare" in (TritonAttention.doubts(Request(device=GPU)) or "")


def test_each_gpu_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    where = "eigenformer.kernels.triton.comparison.disagreement"
    monkeypatch.setattr(where, lambda device: compared.append(str(device)))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    monkeypatch.setattr(TritonAttention, "unavailable", lambda: None)
    monkeypatch.setattr(TritonAttention, "__init__", lambda *_: None)
    for name in ("cuda", "cuda:1"):
        eigenvectors = SimpleNamespace(dtype=torch.float32, device=torch.device(name))
        graphs = cast(RaggedGraphs, SimpleNamespace(eigenvectors=eigenvectors))
        assert type(make_kernel(graphs)) is TritonAttention
    assert compared == ["cuda:0", "cuda:1"]


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
