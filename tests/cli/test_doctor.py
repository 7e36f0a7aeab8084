"""``eigenformer doctor``."""

from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.kernels.native import load


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
