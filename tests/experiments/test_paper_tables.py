"""Our runs beside the paper's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eigenformer.config import BenchmarkData, RunConfig, TrainingConfig, load_preset
from eigenformer.experiments.paper_tables import left_out, result_tables
from eigenformer.training.run_folder import RunFolder


def _run(
    folder: Path,
    model: dict[str, object] | None = None,
    training: TrainingConfig | None = None,
    name: str = "pattern",
    run: dict[str, object] | None = None,
    data: dict[str, object] | None = None,
    **changes: object,
) -> None:
    folder.mkdir(parents=True)
    preset = load_preset(name)
    settings = preset.model.replace(**(model or {}))
    training = training or preset.training.with_epochs(10)
    data_config = BenchmarkData(preset.dataset, **(data or {}))  # type: ignore[arg-type]
    config = RunConfig(data_config, name, settings, training, **(run or {}))  # type: ignore[arg-type]
    RunFolder(folder).write_config(config)
    summary = {
        "state": "finished",
        "dataset": preset.dataset,
        "preset": name,
        "seed": 0,
        "metric": "weighted_accuracy",
        "parameters": 1000,
        "best_epoch": 10,
        "best_validation": 0.85,
        "test": 0.8512345,
        "limit": None,
        "size": None,
        "epochs_planned": 10,
        "seconds_per_epoch": 290.4,
        "peak_memory_mb": 1234.0,
        "threads": 1,
        "processes": 2,
        **changes,
    }
    (folder / "summary.json").write_text(json.dumps(summary))


def test_a_run_stands_beside_the_paper_and_its_peers(tmp_path: Path) -> None:
    _run(tmp_path / "a")
    table = result_tables(tmp_path).splitlines()
    (row,) = (line for line in table if line.startswith("| pattern |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        *("pattern", "0", "weighted accuracy 85.123", "86.680", "86.685 ± 0.059", "87.196 ± 0.076"),
        *("10 of 100", "290 (2 threads)", "571 (A10G)", "1.2 GB", "16.4 GB"),
    ]
    assert any(line.startswith("| **Eigenformer, ours, 10 epochs**") for line in table)


def test_a_variant_has_rows_of_its_own_beside_the_papers_epochs(tmp_path: Path) -> None:
    for name in ("cifar10-feat", "cifar10-feat-quick"):
        _run(tmp_path / name, name=name)
    table = result_tables(tmp_path).splitlines()
    (row,) = (line for line in table if line.startswith("| cifar10-feat-quick |"))
    assert "| accuracy 85.123 | 70.194 |" in row
    assert "| 10 of 200 |" in row
    rows = [line.partition("|  ")[0].split(" | ")[0] for line in table if "ours" in line]
    assert rows == [
        "| **Eigenformer (feat.) quick, ours, 10 epochs**",
        "| **Eigenformer (feat.), ours, 10 epochs**",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"run": {"start": "results/zinc"}}, "started from another model"),
        ({"run": {"precision": "bf16"}}, "settings differ from the preset's"),
        ({"data": {"generator_seed": 7}}, "settings differ from the preset's"),
        ({"epochs": 4}, "stopped before the end of its schedule"),
    ],
)
def test_what_is_no_run_of_the_preset_does_not_count(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    _run(tmp_path / "a", **change)
    assert left_out(tmp_path) == [(tmp_path / "a", reason)]


def test_of_two_runs_alike_one_counts(tmp_path: Path) -> None:
    _run(tmp_path / "a")
    _run(tmp_path / "b", test=0.5)
    assert "85.123 (1 seed)" in result_tables(tmp_path)
    assert "50.000" not in result_tables(tmp_path)
    reason = "the preset has another run with seed 0"
    assert left_out(tmp_path) == [(tmp_path / "b", reason)]


def test_published_graphs_count(tmp_path: Path) -> None:
    _run(tmp_path / "a", data={"official": True})
    assert left_out(tmp_path) == []


def test_the_longest_schedule_of_a_preset_counts(tmp_path: Path) -> None:
    few = load_preset("pattern").training.with_epochs(2)
    _run(tmp_path / "long", test=0.86)
    _run(tmp_path / "other-seed", test=0.88, seed=1)
    _run(tmp_path / "short", training=few, epochs_planned=2, seed=2)
    _run(tmp_path / "other-settings", model={"phi_gain": 2.0}, epochs_planned=50)
    _run(tmp_path / "other-preset", name="mnist", epochs_planned=1)
    table = result_tables(tmp_path)
    assert "87.000 ± 1.414 (2 seeds)" in table
    assert "2 epochs" not in table
    assert "85.123 (1 seed)" in table  # MNIST, in one epoch
    reasons = dict(left_out(tmp_path))
    assert set(reasons) == {tmp_path / "short", tmp_path / "other-settings"}
    assert reasons[tmp_path / "short"] == "a shorter schedule than another run of the preset"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"limit": 5}, "only part of the graphs"),
        ({"size": 100}, "only part of the graphs"),
        ({"differences": ["30 graphs, the paper has 12000"]}, "not the paper's graphs"),
        ({"state": "interrupted"}, "not finished"),
        ({"dataset": "own.csv"}, "not the preset's data"),
        ({"test": None}, "no test result"),
    ],
)
def test_a_run_that_does_not_count_is_named(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    _run(tmp_path / "a", **change)
    assert "None here." in result_tables(tmp_path)
    assert left_out(tmp_path) == [(tmp_path / "a", reason)]


@pytest.mark.parametrize("change", [{"frequency_fraction": 0.4}, {"degree_scaler": "none"}])
def test_other_settings_than_the_presets_do_not_count(
    tmp_path: Path, change: dict[str, object]
) -> None:
    _run(tmp_path / "a", model=change)
    assert "None here." in result_tables(tmp_path)
    assert left_out(tmp_path) == [(tmp_path / "a", "settings differ from the preset's")]
    training = load_preset("pattern").training.with_epochs(10)
    _run(tmp_path / "c", training=training.replace(batch_size=8))
    assert "None here." in result_tables(tmp_path)
    _run(tmp_path / "b", run={"backend": "torch"})  # the same model, computed otherwise
    assert "None here." not in result_tables(tmp_path)
