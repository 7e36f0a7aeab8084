"""``eigenformer bench``."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

from eigenformer import speed
from eigenformer.cli import bench, main
from eigenformer.data import GraphArchive
from eigenformer.plots.growth import draw_growth
from eigenformer.speed import measuring
from eigenformer.speed.batches import find_archive, make_batch

TINY = speed.Workload("zinc", ("zinc",), 3, 10_000, 4, 9, 2.1)


def test_measures_every_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(speed.WORKLOADS, "zinc", TINY)
    monkeypatch.setattr(speed, "measure", speed.measure_here)  # no process of its own
    command = ["bench", "--workloads", "zinc", "--threads", "1", "--no-growth"]
    command += ["--cache-dir", str(tmp_path)]
    assert main([*command, "--output", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "bench.json").read_text())
    records, machine = results["steps"], results["machine"]
    assert machine["device"] == "cpu"
    assert machine["name"]
    assert machine["versions"]["torch"] == torch.__version__
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
    assert (found.gpu, found.memory, found.parameters, found.peak) == (0.25, 3.0, 7, 4.0)

    def measure(setup: speed.Setup) -> speed.Measurement:
        if setup.model == "gps":
            raise speed.MeasuringError("CUDA out of memory")
        return found

    monkeypatch.setattr(speed, "measure", measure)
    command = ["bench", "--workloads", "zinc", "--threads", "1", "--device", "cuda"]
    command += ["--cache-dir", str(tmp_path), "--output", str(tmp_path)]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "an epoch: 10000 graphs in batches of 128\n" in output
    assert "On a GPU: seconds of a step between its events" in output
    assert "| triton | 7 |" in output
    # 10,000 / 128 steps of a quarter of a second; 4 MB.
    assert "| 3 | 1.0 | 0.2500 | 19.5 | 0.00 |" in output
    assert "| zinc | | the paper, A10G | 509849 | | | | | | 21 | 19.44 |" in output.replace(
        "  ", " "
    )
    assert "| zinc | 1 | gps | failed: CUDA out of memory |" in output
    assert "native" not in output
    results = json.loads((tmp_path / "bench.json").read_text())
    assert results["machine"]["name"] == "a GPU"
    (failed,) = (record for record in results["steps"] if record["model"] == "gps")
    assert failed["missing"] == "failed: CUDA out of memory"


def test_batches_that_are_not_the_papers_say_so() -> None:
    text = bench._epoch(speed.WORKLOADS["superpixels"])
    assert text == "an epoch: 45000 graphs in batches of 32; the paper's batches have 512"


def test_measures_apples_gpus_without_their_memory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 125.0)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    monkeypatch.setattr(torch.mps.event, "Event", lambda enable_timing: event)
    found = measuring._on_gpu(lambda: None, 2, 7, torch.device("mps"))
    assert (found.gpu, found.memory, found.peak) == (0.125, None, None)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    monkeypatch.setattr(speed, "measure", lambda _: found)
    command = ["bench", "--workloads", "zinc", "--threads", "1", "--device", "mps"]
    assert main([*command, "--cache-dir", str(tmp_path), "--output", str(tmp_path)]) == 0
    text = (tmp_path / "bench.json").read_text()
    assert '"memory": null' in text
    assert "NaN" not in text
    assert "nan" not in capsys.readouterr().out


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
    assert found.memory is not None
    assert found.memory >= 0
    with pytest.raises(speed.MeasuringError, match="nonsense"):
        speed.measure(speed.Setup("nonsense"))


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
