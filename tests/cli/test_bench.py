"""``eigenformer bench``."""

import json
from pathlib import Path

import pytest

from eigenformer import benchmark
from eigenformer.cli import main

TINY = {"zinc": benchmark.Workload("zinc", 3, 4, 9, 2.1)}


def test_measures_every_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "WORKLOADS", TINY)
    monkeypatch.setattr(benchmark, "measure", benchmark.measure_here)  # no process of its own
    command = ["bench", "--workloads", "zinc", "--threads", "1", "--no-growth"]
    assert main([*command, "--output", str(tmp_path)]) == 0
    records = json.loads((tmp_path / "bench.json").read_text())["steps"]
    models = [*benchmark.BACKENDS, *benchmark.PEERS]
    assert [r["model"] for r in records] == models
    assert all(r["cpu"] > 0 and r["parameters"] > 1000 for r in records)
    output = capsys.readouterr().out
    assert all(f"| zinc | 1 | {model} |" in output for model in models)


@pytest.mark.parametrize(
    "setup",
    [
        benchmark.Setup("native", part="attention", nodes=16, repeats=1),
        benchmark.Setup("torch", changes={"phi_width": 4}, repeats=1),
    ],
)
def test_measures_parts_and_changes(
    setup: benchmark.Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "WORKLOADS", TINY)
    assert benchmark.measure_here(setup).cpu > 0


def test_in_a_process_of_its_own() -> None:
    setup = benchmark.Setup("native", part="attention", nodes=8, repeats=1)
    found = benchmark.measure(setup)
    assert found is not None
    assert found.memory >= 0
    assert benchmark.measure(benchmark.Setup("nonsense")) is None


def test_unknown_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--workloads", "qm9"]) == 2
    assert "'qm9' is not one of zinc" in capsys.readouterr().err
