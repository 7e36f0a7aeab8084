"""``eigenformer doctor``."""

from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.kernels import Request
from eigenformer.kernels.native import load
from eigenformer.self_check import BackendCheck


def test_says_which_path_is_active(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["doctor", "--cache-dir", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert f"cache            {tmp_path}: 0 MB" in output
    assert "PyTorch 2." in output
    path = "torch" if load()[0] is None else "native"
    assert f"attention        {path}" in output
    assert "torch agrees with literal" in output
    assert "torch for a GPU (triton: " in output or "triton for a GPU" in output
    if path == "native":
        assert "torch for float64 (native: it computes in float32 only, not in float64)" in output
        assert "torch for attention weights (native: it never stores" in output


def test_says_what_apples_gpus_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    compared: list[str] = []
    check = "eigenformer.self_check.check_backends"
    monkeypatch.setattr(check, lambda _, device: compared.append(device) or [])
    monkeypatch.setattr("eigenformer.kernels.TritonAttention.unavailable", lambda: None)
    assert main(["doctor"]) == 0
    reason = "triton: it runs on NVIDIA's and AMD's GPUs only, not on 'mps'"
    assert f"torch for a GPU ({reason})" in capsys.readouterr().out
    assert compared == ["cpu", "mps"]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretends that there are two GPUs; returns what is compared, in its order."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: f"GPU {device}")
    monkeypatch.setattr("eigenformer.kernels.TritonAttention.unavailable", lambda: None)
    compared: list[str] = []

    def check(backends: list[str], device: str) -> list[BackendCheck]:
        compared.extend(f"{backend} on {device}" for backend in backends)
        return [BackendCheck("triton", 1e-6, 5)]

    monkeypatch.setattr("eigenformer.self_check.check_backends", check)
    return compared


def test_compares_on_all_gpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, two_gpus: list[str]
) -> None:
    monkeypatch.setattr("eigenformer.kernels.TritonAttention.doubts", lambda _: None)
    assert main(["doctor"]) == 0
    assert {"triton on cuda:0", "triton on cuda:1", "torch on cuda:1"} < set(two_gpus)
    output = capsys.readouterr().out
    assert "triton for cuda:1 (Triton" in output
    assert (
        "triton agrees with literal: largest difference 1.0e-06 in 5 batches, on cuda:1" in output
    )


def test_a_doubt_about_a_kernel_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, two_gpus: list[str]
) -> None:
    def doubts(request: Request) -> str | None:
        return "it differs from 'literal' by 1.0e-01" if "1" in str(request.device) else None

    monkeypatch.setattr("eigenformer.kernels.TritonAttention.doubts", doubts)
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "torch for cuda:1 (triton: it differs from 'literal' by 1.0e-01)" in output
    assert "self-check       triton is not used on cuda:1: it differs from" in output
    assert "triton on cuda:0" in two_gpus
    assert "triton on cuda:1" not in two_gpus  # it might fail there


def test_says_why_there_is_no_library(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "eigenformer.kernels.native.binding.load", lambda: (None, "it was not compiled")
    )
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "attention        torch: it was not compiled" in output
    assert "native agrees" not in output
