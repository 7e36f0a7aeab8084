"""``eigenformer ablate``, end to end on small real data."""

from __future__ import annotations

import pytest

from eigenformer.cli import main
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, read_rows


def test_frequencies_of_zinc_beside_the_paper(raw_dir, tmp_path, capsys):
    command = ["ablate", "frequencies", "zinc-feat", "--fractions", "1.0", "0.4"]
    options = [*SMALL, "--epochs", "1", "--limit", "12", "--samples", "2"]
    assert main([*command, "--out", str(tmp_path), "--raw-dir", str(raw_dir), *options]) == 0
    out = capsys.readouterr().out
    assert "| 0.4 | 0.133 (15 of 37) |" in out
    assert "12 graphs of each split" in out
    assert (tmp_path / "table.md").read_text("utf-8") in out
    rows = read_rows(tmp_path / "results.csv")
    assert [row["variant"] for row in rows] == ["all", "0.4-eigenspaces", "0.4-literal"]
    assert 0.4 <= float(rows[2]["kept"]) < 0.5
    assert "<svg" in (tmp_path / "figure.svg").read_text("utf-8")


def test_degree_scaler_of_own_data_with_two_seeds(table, tmp_path, capsys):
    command = ["ablate", "degree-scaler", str(table), "--data.targets", "[weight]"]
    assert main([*command, "--out", str(tmp_path), "--seeds", "0", "1", *SMALL]) == 0
    out = capsys.readouterr().out
    for kind in ("shared", "per_layer", "none"):
        assert f"| {kind} | " in out
    assert out.count(" ± ") >= 3
    assert len(read_rows(tmp_path / "results.csv")) == 6


def test_parts_of_generated_graphs_for_equal_time(tmp_path, capsys):
    command = ["ablate", "parts", "pattern", "--ingredients", "node_potentials", "average_weights"]
    options = [*SMALL, "--data.size", "30", "--out", str(tmp_path), "--seeds", "0"]
    assert main([*command, *options]) == 0
    out = capsys.readouterr().out
    assert "| … with average_weights 0.995, recompute_statistics 40 | " in out
    assert "| … without node_potentials | " in out
    assert (tmp_path / "table.md").read_text("utf-8") in out
    rows = read_rows(tmp_path / "results.csv")
    assert [row["variant"] for row in rows] == [
        *("pattern", "pattern-with-node_potentials", "pattern-with-average_weights"),
        *("pattern-plus", "pattern-plus-without-node_potentials"),
    ]
    seconds = [float(row["epoch_seconds"]) for row in rows]
    epochs = [int(row["epochs"]) for row in rows]
    assert epochs[0] == 3
    assert epochs == [round(3 * seconds[0] / own) for own in seconds]
    for row in rows:
        config = RunFolder(tmp_path / f"{row['variant']}-seed{row['seed']}").read_config()
        assert config.training.epochs == int(row["epochs"])
        assert (config.preset, config.seed) == (row["preset"], int(row["seed"]))
        averaged = row["ingredient"] == "average_weights"
        assert config.training.average_weights == (0.995 if averaged else 0)
    assert "<svg" in (tmp_path / "figure.svg").read_text("utf-8")
    # The same command again trains nothing, because the measured times are kept.
    weights = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("model.safetensors")}
    assert main([*command, *options]) == 0
    assert read_rows(tmp_path / "results.csv") == rows
    assert weights == {path: path.stat().st_mtime_ns for path in weights}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frequencies", "zink"], "the nearest is 'zinc'"),
        (["frequencies", "zinc", "--fractions", "0"], "must be in (0, 1]"),
        (["parts", "zinc", "--ingredients", "phi_gian"], "the nearest is 'phi_gain'"),
        (["parts", "zinc", "--minutes", "1", "--equal", "epochs"], "unequal times"),
        (
            ["degree-scaler", "pattern", "--model.degree_scaler", "none"],
            "the variants change it",
        ),
    ],
)
def test_mistakes_are_explained(arguments, message, capsys, tmp_path):
    assert main(["ablate", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
