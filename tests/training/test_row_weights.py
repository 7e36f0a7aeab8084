"""Weights of rows in the training loss."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from eigenformer.cli import main
from eigenformer.config import ReadOptions
from eigenformer.data import DataError, GraphArchive
from eigenformer.data.fields import Field
from eigenformer.data.graph_tables import read_graph_tables
from eigenformer.training.loading import weighted
from tests.training.samples import SMALL, read_rows


def _with_weights(table: Path, path: Path, weights: list[str]) -> Path:
    rows = read_rows(table)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*rows[0], "trust"])
        for number, row in enumerate(rows):
            writer.writerow([*row.values(), weights[number % len(weights)]])
    return path


def _train(table: Path, out: Path, *options: str) -> str:
    assert (
        main(["train", str(table), "--target", "weight", "--out", str(out), *SMALL, *options]) == 0
    )
    return (out / "metrics.csv").read_text()


def test_equal_weights_change_nothing_and_others_do(table, run, tmp_path):
    option = ("--weight-column", "trust")
    equal = _with_weights(table, tmp_path / "equal.csv", ["4"])
    assert _train(equal, tmp_path / "equal", *option) == (run / "metrics.csv").read_text()
    unequal = _with_weights(table, tmp_path / "unequal.csv", ["0", "1", "2.5"])
    assert _train(unequal, tmp_path / "unequal", *option) != (run / "metrics.csv").read_text()
    assert _train(unequal, tmp_path / "ignored") == (run / "metrics.csv").read_text()


def test_rows_of_weight_0_are_left_out_altogether(table, tmp_path):
    """Neither do they set the units of the targets."""
    rows = read_rows(table)
    for place, row in enumerate(rows):
        row["split"] = ("train", "train", "val", "test")[place % 4]
        row["trust"] = "0" if place % 8 == 0 else "1"
        row["weight"] = "1e9" if place % 8 == 0 else row["weight"]
    for name, kept in (("all", rows), ("some", [row for row in rows if row["trust"] == "1"])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(kept)
    option = ("--weight-column", "trust", "--split-column", "split")
    found = [_train(tmp_path / f"{name}.csv", tmp_path / name, *option) for name in ("all", "some")]
    assert found[0] == found[1]


def test_rows_without_a_valid_weight_are_set_aside(table, tmp_path, capsys):
    path = _with_weights(table, tmp_path / "m.csv", ["1", "1", "1", "-2", *["1"] * 96])
    _train(path, tmp_path / "run", "--weight-column", "trust")
    assert "m.csv, line 5: trust: '-2' is negative, but a weight is not" in capsys.readouterr().err
    path = _with_weights(table, tmp_path / "none.csv", [""])
    command = ["train", str(path), "--target", "weight", "--weight-column", "trust", *SMALL]
    assert main([*command, "--out", str(tmp_path / "none")]) == 2
    assert "line 2: trust: '' is not a number" in capsys.readouterr().err


def test_a_column_that_is_not_there_or_used_otherwise(table, tmp_path, capsys):
    command = ["train", str(table), "--target", "weight", "--out", str(tmp_path / "run")]
    assert main([*command, "--weight-column", "wieght"]) == 2
    assert "column 'wieght': unknown; the nearest is 'weight'" in capsys.readouterr().err
    assert main([*command, "--weight-column", "weight"]) == 2
    assert "weight_column: 'weight' is used otherwise" in capsys.readouterr().err


def test_plain_tables(tmp_path):
    (tmp_path / "graphs.csv").write_text("graph,y,w\na,1,0.5\nb,2,3\n")
    (tmp_path / "nodes.csv").write_text("graph,node\na,0\nb,0\nb,1\n")
    (tmp_path / "edges.csv").write_text("graph,source,target\nb,0,1\n")
    options = ReadOptions(targets=("y",), weight_column="w")
    archive = read_graph_tables(tmp_path, options)
    assert archive.fields["row_weight"].values.tolist() == [0.5, 3.0]
    (tmp_path / "graphs.csv").write_text("graph,y,w\na,1,0.5\nb,2,inf\n")
    with pytest.raises(DataError, match="graphs.csv, line 3: w: 'inf' is not finite"):
        read_graph_tables(tmp_path, options)


def _archive(weights: list[float], level: str = "graph") -> GraphArchive:
    values = np.array(weights, dtype=np.float32)
    return GraphArchive(
        node_offsets=np.array([0, 1, 2, 4]),
        edge_offsets=np.zeros(4, np.int64),
        edge_index=np.zeros((2, 0), np.int64),
        fields={"row_weight": Field(level, values, values.dtype)},  # type: ignore[arg-type]
    )


def test_the_mean_over_the_training_set_is_one():
    archive = _archive([1.0, 3.0, 100.0])
    found = weighted(archive, np.array([0, 1])).fields["row_weight"].values
    assert found.tolist() == [0.5, 1.5, 50.0]
    assert archive.fields["row_weight"].values.tolist() == [1.0, 3.0, 100.0]


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (_archive([1.0, -1.0, 1.0]), "negative, infinite or not a number"),
        (_archive([0.0, 0.0, 1.0]), "all graphs of the training set have the weight 0"),
        (_archive([1.0, 1.0, 1.0, 1.0], "node"), "expected one number per graph"),
    ],
)
def test_weights_that_cannot_be_used(archive, message):
    with pytest.raises(DataError, match=message):
        weighted(archive, np.array([0, 1]))
