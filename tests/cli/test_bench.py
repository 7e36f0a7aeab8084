"""``eigenformer bench``."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from eigenformer import speed
from eigenformer.cli import main
from eigenformer.data import GraphArchive
from eigenformer.plots.growth import draw_growth
from eigenformer.speed import measuring
from eigenformer.speed.batches import find_archive, make_batch

TINY = speed.Workload("zinc", ("zinc",), 3, 4, 9, 2.1)


def test_measures_every_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(speed.WORKLOADS, "zinc", TINY)
    monkeypatch.setattr(speed, "measure", speed.measure_here)  # no process of its own
    command = ["bench", "--workloads", "zinc", "--threads", "1", "--no-growth"]
    command += ["--cache-dir", str(tmp_path)]
    assert main([*command, "--output", str(tmp_path)]) == 0
    records = json.loads((tmp_path / "bench.json").read_text())["steps"]
    models = [*(name for name in speed.BACKENDS if name != "triton"), *speed.PEERS]
    assert [r["model"] for r in records] == models
    assert all(r["cpu"] > 0 and r["parameters"] > 1000 for r in records)
    output = capsys.readouterr().out
    assert "zinc: 3 graphs of random graphs" in output
    assert all(f"| zinc | 1 | {model} |" in output for model in models)


def test_a_gpu_is_measured_by_its_events(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a GPU that is not there: its calls are answered as it would."""
    current: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            pass

        def elapsed_time(self, end: object) -> float:
            return 250.0  # milliseconds

    for name, answer in (
        ("Event", Event),
        ("synchronize", lambda: None),
        ("reset_peak_memory_stats", lambda: None),
        ("memory_allocated", lambda: 2**20),
        ("max_memory_allocated", lambda: 4 * 2**20),
        ("get_device_name", lambda _: "a GPU"),
        ("is_available", lambda: True),
        ("device_count", lambda: 2),
        ("set_device", lambda device: current.append(str(device))),
    ):
        monkeypatch.setattr(torch.cuda, name, answer)
    done = []
    found = measuring._on_gpu(lambda: done.append(1), 3, 7, torch.device("cuda:1"))
    assert len(done) == 3
    assert current == ["cuda:1"]
    assert (found.gpu, found.memory, found.parameters) == (0.25, 3.0, 7)
    monkeypatch.setattr(speed, "measure", lambda setup: found if setup.model != "gps" else None)
    command = ["bench", "--workloads", "zinc", "--threads", "1", "--device", "cuda"]
    assert main([*command, "--cache-dir", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "the paper: 21 s an epoch, 19.44 GB at most, on an A10G (zinc)" in output
    assert "On a GPU: seconds between its events" in output
    assert "| triton | 7 |" in output
    assert "| 3 | 1.0 | 0.2500 |" in output
    assert "native" not in output


def test_measures_apples_gpus_without_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 125.0)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    monkeypatch.setattr(torch.mps.event, "Event", lambda enable_timing: event)
    found = measuring._on_gpu(lambda: None, 2, 7, torch.device("mps"))
    assert found.gpu == 0.125
    assert math.isnan(found.memory)


@pytest.mark.parametrize(
    "setup",
    [
        speed.Setup("native", part="attention", nodes=16, repeats=1),
        speed.Setup("torch", changes={"phi_width": 4}, repeats=1),
    ],
)
def test_measures_parts_and_changes(setup: speed.Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(speed.WORKLOADS, "zinc", TINY)
    assert speed.measure_here(setup).cpu > 0


def test_in_a_process_of_its_own() -> None:
    setup = speed.Setup("native", part="attention", nodes=8, repeats=1)
    found = speed.measure(setup)
    assert found is not None
    assert found.memory >= 0
    assert speed.measure(speed.Setup("nonsense")) is None


def test_takes_the_benchmarks_own_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(speed.WORKLOADS, "zinc", TINY)
    assert find_archive("zinc", tmp_path) is None
    graphs = [
        Data(
            x=torch.full((n,), n),
            edge_index=torch.tensor([[0, 1], [1, 0]]),
            edge_attr=torch.ones(2, dtype=torch.long),
            y=torch.zeros(1),
        )
        for n in (4, 5, 6, 7)
    ]
    GraphArchive.from_data_list(graphs, split=["train"] * 4).save(tmp_path / "zinc")
    found = find_archive("zinc", tmp_path)
    assert found == tmp_path / "zinc"
    setup = speed.Setup("native", archive=str(found), repeats=1)
    batch = make_batch(setup)
    assert batch.ptr.diff().tolist() == [4, 5, 6]
    assert batch.x.unique().tolist() == [4, 5, 6]
    assert speed.measure_here(setup).cpu > 0


def test_draws_the_growth() -> None:
    records = [
        {"name": name, "value": value, "model": model, "cpu": 0.1 * value, "memory": 3.0 * value}
        for name, _, model in (
            ("nodes", 0, "native"),
            ("phi_width", 0, "torch"),
            ("heads", 0, "native"),
        )
        for value in (8, 16, 32)
    ]
    records.append({"name": "nodes", "value": 64, "model": "native"})  # one that failed
    picture = draw_growth(records)
    time, memory = picture.body.get_axes()[:2], picture.body.get_axes()[3:5]
    assert [list(line.get_xdata()) for line in time[0].lines] == [[8, 16, 32]]
    assert list(memory[1].lines[0].get_ydata()) == [24.0, 48.0, 96.0]


def test_unknown_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--workloads", "qm9"]) == 2
    assert "'qm9'" in capsys.readouterr().err
