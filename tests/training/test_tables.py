"""Our runs beside the paper's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenformer.training.tables import result_tables


def _run(folder: Path, **changes: object) -> None:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("preset: pattern\n")
    summary = {
        "state": "finished",
        "dataset": "pattern",
        "preset": "pattern",
        "seed": 0,
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
    ours = ["pattern", "0", "weighted accuracy 85.123", "10", "290, CPU, 2 threads", "1.2 GB"]
    assert cells[:6] == ours
    assert cells[6:8] == ["86.680", "100"]
    assert cells[-2:] == ["86.685 ± 0.059", "87.196 ± 0.076"]
    assert any(line.startswith("| **Eigenformer, ours, 10 epochs**") for line in table)


@pytest.mark.parametrize("change", [{"limit": 5}, {"state": "interrupted"}, {"size": 100}])
def test_a_run_on_a_part_of_the_data_does_not_count(
    tmp_path: Path, change: dict[str, object]
) -> None:
    _run(tmp_path / "a", **change)
    assert "None here." in result_tables(tmp_path)
