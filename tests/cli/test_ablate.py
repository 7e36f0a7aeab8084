"""``eigenformer ablate``, end to end on small real data."""

from __future__ import annotations

import pytest

from eigenformer.cli import main
from tests.training.samples import SMALL, read_rows


def test_frequencies_of_zinc_beside_the_paper(raw_dir, tmp_path, capsys):
    command = ["ablate", "frequencies", "zinc-feat", "--fractions", "1.0", "0.4"]
    options = [*SMALL, "--epochs", "1", "--limit", "12", "--draws", "2"]
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["frequencies", "zink"], "the nearest is 'zinc'"),
        (["frequencies", "zinc", "--fractions", "0"], "must be in (0, 1]"),
        (
            ["degree-scaler", "pattern", "--model.degree_scaler", "none"],
            "the variants change it",
        ),
    ],
)
def test_mistakes_are_explained(arguments, message, capsys, tmp_path):
    assert main(["ablate", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
