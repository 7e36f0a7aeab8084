"""Ensembles and cross-validations from the command line to predictions."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer.cli import main
from eigenformer.data import GraphArchive
from eigenformer.targets import NumberTarget
from eigenformer.trained_model import TrainedModel

SMALL = [
    *("--epochs", "2", "--batch-size", "16", "--threads", "1", "--side-by-side", "1"),
    *("--model.layers", "1", "--model.hidden_dim", "16"),
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("rdkit")
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rings = ("", "C1CC1", "C1CCC1", "c1ccccc1", "c1ccncc1", "C1CCOCC1", "C1CCNC1", "c1ccsc1")
    smiles = ["C" * n + end for n in range(2, 9) for end in ("O", *rings)]
    rows = "".join(f"{text},{len(text) / 3}\n" for text in smiles)
    Path("m.csv").write_text("smiles,size\n" + rows)
    return "m.csv"


def read(path: str) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def test_an_ensemble_predicts_with_spread_and_intervals(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", table, "--target", "size", "--ensemble", "2", *SMALL, "--out", "both"]
    assert main([*command, "--fractions", ".6", ".2", ".2"]) == 0
    assert "**ensemble**" in Path("both/table.md").read_text()
    assert main(["predict", "both", table, "--interval", "80%", "--out", "p.csv"]) == 0
    rows = read("p.csv")
    parts = [TrainedModel.open(f"both/seed{seed}").predict(["CCO"]).item() for seed in (0, 1)]
    (ethanol,) = (row for row in rows if row["smiles"] == "CCO")
    assert float(ethanol["predicted_size"]) == pytest.approx(np.mean(parts), rel=1e-5)
    assert float(ethanol["spread_size"]) == pytest.approx(np.std(parts), rel=1e-4)
    half = (float(ethanol["high_size"]) - float(ethanol["low_size"])) / 2
    trained = TrainedModel.open("both")
    assert half == pytest.approx(trained.bounds(0.8)[0])
    val = trained.graphs(split="val")
    errors = np.abs(trained.predict(val, 16).numpy()[:, 0] - np.array([g.y.item() for g in val]))
    assert half == pytest.approx(np.sort(errors)[int(np.ceil(0.8 * (len(errors) + 1))) - 1])
    capsys.readouterr()
    assert main(["evaluate", "both"]) == 0
    assert "test mae" in capsys.readouterr().out
    assert main(["predict", "both", table, "--interval", "0.99", "--out", "q.csv"]) == 2
    assert "needs 99 graphs with a known target" in capsys.readouterr().err
    assert main(["explain", "both", "CCO", "--out", "e.html"]) == 0
    capsys.readouterr()
    for command in (["report", "both"], ["train", table, "--target", "size", "--from", "both"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert "both: an ensemble of 2 models; use one of them, for example " in error
    assert "the first of 2 members" in Path("e.html").read_text("utf-8")


@pytest.mark.parametrize("method", ["random", "stratified", "scaffold"])
def test_every_row_is_predicted_once_out_of_fold(table: str, method: str) -> None:
    command = ["train", table, "--target", "size", "--folds", "3", *SMALL, "--split-by", method]
    assert main([*command, "--out", "f"]) == 0
    rows, own = read("f/out_of_fold.csv"), read(table)
    assert [row["graph"] for row in rows] == [row["smiles"] for row in own]
    assert {row["fold"] for row in rows} <= {"0", "1", "2"}
    for place in (0, len(rows) - 1):
        fold = TrainedModel.open(f"f/repeat0-fold{rows[place]['fold']}")
        found = fold.predict([own[place]["smiles"]]).item()
        assert float(rows[place]["predicted_size"]) == pytest.approx(found, rel=1e-4)
        tested = fold.graphs(split="test").indices
        assert place in tested.tolist()
    assert "mean ± deviation" in Path("f/table.md").read_text()
    assert TrainedModel.open("f").bounds(0.9) > 0


@pytest.mark.parametrize("escape", [False, True])
def test_formulas_in_the_names_of_graphs(table: str, escape: bool) -> None:
    with Path("t.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "smiles", "size"])
        writer.writerows(
            [f"=1+{i}", row["smiles"], row["size"]] for i, row in enumerate(read(table))
        )
    command = ["train", "t.csv", "--target", "size", "--id-column", "id", "--folds", "2", *SMALL]
    assert main([*command, "--out", "f", *(["--escape-formulas"] if escape else [])]) == 0
    rows = read("f/out_of_fold.csv")
    assert [row["graph"] for row in rows][:2] == (
        ["'=1+0", "'=1+1"] if escape else ["=1+0", "=1+1"]
    )
    assert float(rows[0]["predicted_size"]) == float(rows[0]["predicted_size"].lstrip("'"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ensemble", "1"], "ensemble: needs at least 2 models"),
        (["--ensemble", "2", "--folds", "2"], "give --ensemble or --folds, not both"),
        (["--escape-formulas"], "--escape-formulas: only with --folds"),
        (["--folds", "1"], "folds: must be at least 2"),
        (["--folds", "100"], "folds: 100 for 63 graphs"),
        (["--folds", "2", "--split-column", "size"], "folds: cannot be combined"),
    ],
)
def test_mistakes(
    table: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", table, "--target", "size", *options, *SMALL]) == 2
    assert message in capsys.readouterr().err


def test_folds_of_nodes_are_refused_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    graph = Data(x=torch.ones(3, 1), edge_index=ring, y=torch.tensor([[0.5], [1.5], [2.5]]))
    target = NumberTarget(names=("y",), level="node")
    GraphArchive.from_data_list([graph] * 12, target=target).save("nodes")
    assert main(["train", "nodes", "--folds", "2", *SMALL, "--out", "folds"]) == 2
    assert "needs targets of graphs, not of nodes" in capsys.readouterr().err
    assert not Path("folds").exists()


def test_a_preset_for_own_data_has_nothing_to_reproduce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The current folder is not the data."""
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for words in (["reproduce", "molecules"], ["ablate", "degree-scaler", "molecules"]):
        assert main(words) == 2
        assert "preset 'molecules' is for your own data" in capsys.readouterr().err
    assert main(["train", ""]) == 2
    assert "dataset: is empty" in capsys.readouterr().err
