"""One place turns the name of a device into a device, and every command uses it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from eigenformer.cli import main
from eigenformer.config import ConfigError, RunConfig, load_preset
from eigenformer.config.data import BenchmarkData
from eigenformer.devices import check_device, lacks_bf16, resolve_device
from eigenformer.training.trainer import check_hardware, make_trainer


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def _config(**settings: object) -> RunConfig:
    preset = load_preset("zinc")
    fields = {"data": BenchmarkData("zinc"), "preset": "zinc", "training": preset.training}
    return RunConfig(model=preset.model, **fields, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["meta", "xpu", "cudo", "cuda:", "cuda:one", "cpu:0", ""])
def test_only_devices_that_the_package_computes_on(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown.* \(known: auto, cpu, cuda, c"):
        check_device(name)
    with pytest.raises(ConfigError, match=f"device: '{name}': unknown"):
        _config(device=name)


@pytest.mark.usefixtures("two_gpus")
def test_with_gpus() -> None:
    assert resolve_device() == resolve_device("cuda") == torch.device("cuda")
    assert resolve_device("cuda:1") == resolve_device(torch.device("cuda", 1))
    assert resolve_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="'cuda:2' does not exist: the last GPU is cuda:1"):
        resolve_device("cuda:2")


@pytest.mark.usefixtures("no_gpu")
def test_without_gpus() -> None:
    assert resolve_device() == torch.device("cpu")
    for name in ("cuda", "cuda:0", "mps"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be used: PyTorch finds no GPU"):
            resolve_device(name)
        with pytest.raises(ValueError, match=f"'{name}' cannot be used"):
            check_hardware(_config(device=name))
    with pytest.raises(ConfigError, match="'16' needs a GPU"):
        check_hardware(_config(precision="16"))


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("settings", "accelerator", "devices"),
    [
        ({}, "cuda", 1),
        ({"device": "cpu"}, "cpu", 1),
        ({"device": "cuda", "devices": 2}, "cuda", 2),
        ({"device": "cuda:1"}, "cuda", [1]),
    ],
)
def test_lightning_trains_there(
    settings: dict, accelerator: str, devices: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr("lightning.pytorch.Trainer", lambda **named: given.update(named))
    make_trainer(_config(**settings), [])
    assert (given["accelerator"], given["devices"]) == (accelerator, devices)


def test_one_gpu_is_not_several() -> None:
    with pytest.raises(ConfigError, match="devices: 2, but 'cuda:1' is a single device"):
        _config(device="cuda:1", devices=2)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    "command",
    [
        "train zinc --limit 4 --out new",
        "reproduce zinc --out new",
        "evaluate ROOT",
        "predict ROOT ROOT --out p.csv",
        "explain ROOT CCO",
        "report ROOT",
        "diagnose ROOT",
        "bench --workloads zinc",
    ],
)
def test_every_command_that_computes_takes_a_device(
    command: str,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
    tmp_path,
    monkeypatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    words = command.replace("ROOT", str(pytestconfig.rootpath / "results" / "zinc")).split()
    for device, message in (("meta", "'meta': unknown"), ("cuda", "'cuda' cannot be used")):
        assert main([*words, "--device", device]) == 2
        assert f"device: {message}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # before any work


@pytest.mark.parametrize(
    ("features", "lacks"),
    [
        ("flags : fpu avx512f avx512_bf16 sse", False),
        ("Features : asimd bf16 i8mm", False),
        ("flags : fpu avx2 avx512f", True),
        (None, False),  # not known
    ],
)
def test_bf16_is_read_from_the_processor(
    features: str | None, lacks: bool, tmp_path, monkeypatch
) -> None:
    path = tmp_path / "cpuinfo"
    if features:
        path.write_text(features)
    monkeypatch.setattr("eigenformer.devices._PROCESSOR", path)
    assert lacks_bf16() == lacks


def test_names_are_checked_without_pytorch() -> None:
    code = "import sys, eigenformer.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
