"""Networks compared with equal effort."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from eigenformer.cli import main
from eigenformer.config import ConfigError
from eigenformer.experiments.comparison import Comparison, Entry, compare
from eigenformer.experiments.comparison_tables import comparison_table, records
from eigenformer.experiments.sweep import Variant, sweep
from eigenformer.plots.comparison import draw_comparison
from eigenformer.pools import Pool
from eigenformer.training.run_folder import RunFolder
from tests.experiments.test_sweep import BASE
from tests.training.samples import molecule_rows, write_table


def entry(name: str, test: tuple[float, ...], **changes: object) -> Entry:
    curve = (np.array([0.1, 0.2]), np.array([0.9, 0.8]))
    values = {
        "name": name,
        "preset": f"zinc-{name}",
        "parameters": 7,
        "epochs": 2,
        "training_steps": 20,
        "hours": (0.2,) * len(test),
        "validation": test,
        "test": test,
        "curves": (curve,) * len(test),
    }
    return Entry(**{**values, **changes})  # type: ignore[arg-type]


COMPARISON = Comparison(
    *("zinc", "mae", False, (0, 1), 0.2, None),
    (entry("gine", (0.4, 0.6)), entry("gps", (0.2, 0.2), published=0.07)),
)


def test_the_table_has_the_best_first() -> None:
    lines = comparison_table(COMPARISON).splitlines()
    assert lines[0] == "**zinc: test mae, 0.2 processor hours each, 2 seeds**"
    assert lines[4].startswith("| GPS | zinc-gps | 7 | 2 | 20 | 0.2 | 0.2000 ± 0.0000 | ")
    assert lines[4].endswith("| 0.2000 ± 0.0000 | 0.0700 |")
    assert lines[5].endswith("| 0.5000 ± 0.1414 | - |")
    rows = list(csv.DictReader(records(COMPARISON).splitlines()))
    assert [(row["network"], row["seed"], row["test_mae"]) for row in rows] == [
        *(("gine", "0", "0.4"), ("gine", "1", "0.6"), ("gps", "0", "0.2"), ("gps", "1", "0.2")),
    ]


def test_the_picture_has_a_line_for_each_run() -> None:
    left, right = draw_comparison(COMPARISON).body.get_axes()
    assert len(left.lines) == 4
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["GINE", "GPS"]
    assert [label.get_text() for label in right.get_yticklabels()] == ["GINE", "GPS"]


def test_own_data_with_equal_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network with a preset, one without, and a preset by its own name; then all again."""
    pytest.importorskip("rdkit")
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    table = write_table(tmp_path / "molecules.csv", molecule_rows())
    command = ["compare", str(table), "--target", "weight", "--networks", "gine", "gcn", "zinc"]
    command += ["--epochs", "2", "--side-by-side", "1", "--out", str(tmp_path / "out")]
    command += ["--model.layers", "1", "--batch-size", "16"]
    # A layer count for all is refused: the network without a preset has one of its own.
    assert main(command) == 2
    assert "model.layers: cannot be set" in capsys.readouterr().err
    command = [*command[:-4], "--batch-size", "16", "--limit", "16"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "the same number of epochs each" in shown
    out = tmp_path / "out"
    assert {"table.md", "results.csv", "figure.svg"} <= {path.name for path in out.iterdir()}
    kinds = {
        name: RunFolder(path).read_config().model.kind
        for path in out.iterdir()
        if path.is_dir()
        for name in [path.name.split("-")[1]]
    }
    assert set(kinds.values()) == {"gine", "gcn", "eigenformer"}
    summary = RunFolder(next(path for path in out.iterdir() if path.is_dir())).read_summary()
    assert len(summary["processor_seconds"]) == 2
    written = {path: path.stat().st_mtime_ns for path in out.glob("*/summary.json")}
    assert main(command) == 0
    assert {path: path.stat().st_mtime_ns for path in out.glob("*/summary.json")} == written


def test_equal_hours_are_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"data": {"size": 30}, "training": {"batch_size": 8}, "model": {"layers": 1}}
    arguments = ("pattern", ["eigenformer"], [0], tmp_path, wanted)
    found = compare(*arguments, hours=0.0004)
    cost = json.loads((tmp_path / "costs.json").read_text())["eigenformer"]
    monkeypatch.setattr("eigenformer.experiments.cost.measure_cost", None)
    again = compare(*arguments, hours=0.0004)
    assert again.entries[0].test == found.entries[0].test
    assert found.entries[0].training_steps * cost["step"] <= 0.0004 * 3600
    with pytest.raises(ConfigError, match="give hours or epochs, not both"):
        compare(*arguments[:-1], {**wanted, "training": {"epochs": 2}}, hours=1)


def test_unknown_networks_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "zinc", "--networks", "gritt"]) == 2
    assert "networks: 'gritt': unknown; the nearest is 'grit'" in capsys.readouterr().err
    assert main(["compare", "zinc", "--hours", "0"]) == 2
    assert "--hours: must be positive" in capsys.readouterr().err


@pytest.mark.slow
def test_side_by_side_gives_the_same_results(tmp_path: Path) -> None:
    variants = [Variant("", {})]
    alone = [run.summary["test"] for run in sweep(BASE, variants, [0, 1], tmp_path / "one")]
    together = sweep(BASE, variants, [0, 1], tmp_path / "two", pool=Pool(2))
    assert [run.summary["test"] for run in together] == alone
    assert (tmp_path / "two" / "pattern-pattern-seed0.log").read_text()
