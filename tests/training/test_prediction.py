"""Predictions for graphs that are no molecules, and by a model of ZINC."""

from __future__ import annotations

import gzip
import platform
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from eigenformer import Eigenformer
from eigenformer.cli import main
from eigenformer.config import BenchmarkData, InputFormat, load_preset
from eigenformer.model_folder import ModelCard, save_model
from eigenformer.targets import NumberTarget
from tests.training.samples import SMALL, read_rows


def _ring(size: int, kinds: int, target: float | None = None) -> Data:
    nodes = torch.arange(size)
    edges = torch.stack([nodes, (nodes + 1) % size])
    data = Data(x=(nodes % kinds)[:, None], edge_index=torch.cat([edges, edges.flip(0)], 1))
    if target is not None:
        data.y = torch.tensor([target])
    return data


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """A model of rings, trained on kinds of nodes below three."""
    folder = tmp_path_factory.mktemp("rings")
    (folder / "graphs").mkdir()
    graphs = [_ring(3 + i % 6, 3, 0.5 + i) for i in range(30)]
    torch.save(graphs, folder / "graphs" / "all.pt")
    assert main(["train", str(folder / "graphs"), "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


def test_a_graph_that_the_model_cannot_take_keeps_its_place(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(5, 3), _ring(6, 5), _ring(4, 2)], new / "g.pt")
    out = tmp_path / "p.csv"
    assert main(["predict", str(rings), str(new), "--out", str(out)]) == 0
    assert "2 of 3 rows" in capsys.readouterr().out
    rows = read_rows(out)
    assert [bool(row["predicted_0"]) for row in rows] == [True, False, True]
    assert [bool(row["reason"]) for row in rows] == [False, True, False]
    assert rows[1]["reason"].startswith("x: ")
    torch.save([_ring(5, 3), _ring(4, 2)], new / "g.pt")
    assert main(["predict", str(rings), str(new), "--out", str(out)]) == 0
    again = [row["predicted_0"] for row in read_rows(out)]
    assert [float(cell) for cell in again] == pytest.approx(
        [float(rows[i]["predicted_0"]) for i in (0, 2)], rel=1e-5
    )


def test_no_graph_that_the_model_can_take_is_an_error(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(6, 5)], new / "g.pt")
    assert main(["predict", str(rings), str(new), "--out", str(tmp_path / "p.csv")]) == 2
    assert "x: " in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_a_model_of_zinc_takes_smiles(tmp_path):
    pytest.importorskip("rdkit")
    small = load_preset("zinc").model.replace(layers=1, hidden_dim=8)
    card = ModelCard(
        small,
        NumberTarget(),
        InputFormat(featurizer="zinc", unknown_type=21),
        BenchmarkData("zinc"),
    )
    save_model(tmp_path / "model", Eigenformer(small), card)
    table, out = tmp_path / "new.csv", tmp_path / "p.csv"
    table.write_text("smiles\nCC(=O)Nc1ccc(O)cc1\nOB(O)c1ccccc1\n")
    assert main(["predict", str(tmp_path / "model"), str(table), "--out", str(out)]) == 0
    rows = read_rows(out)
    assert [bool(row["predicted_0"]) for row in rows] == [True, False]
    assert rows[1]["reason"].endswith("the model was trained on ZINC, which has no atom 'B'")


def test_a_bad_row_keeps_its_place_whatever_is_bad_about_it(run, tmp_path, monkeypatch, capsys):
    """A molecule too large for a spectrum, two words, and a prediction that is no number."""
    from eigenformer.trained_model import TrainedModel

    smiles = ["CCO", "C" * 20_000, "c1ccccc1 this is no smiles", "CCN", "CCF"]
    (tmp_path / "new.csv").write_text("smiles\n" + "\n".join(smiles) + "\n")
    predictions = TrainedModel.predictions

    def with_nan(trained, graphs, *arguments):
        found = predictions(trained, graphs, *arguments)
        values = found.values.where(found.values != found.values[-1], torch.nan)
        return replace(found, values=values)

    out = tmp_path / "p.csv"
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    rows = read_rows(out)
    assert "20,000 exceeds the limit of 5,000" in rows[1]["reason"]
    large = ["--limits", "atoms=50k", "--out", str(out)]
    assert main(["predict", str(run), str(tmp_path / "new.csv"), *large]) == 0
    rows = read_rows(out)
    assert [row["smiles"] for row in rows] == smiles
    assert [bool(row["predicted_weight"]) for row in rows] == [True, False, False, True, True]
    assert "of 20000 nodes" in rows[1]["reason"]
    assert "a SMILES has no blanks" in rows[2]["reason"]
    (tmp_path / "new.csv").write_text("smiles\nCCO\nCCCCF\n")
    monkeypatch.setattr(TrainedModel, "predictions", with_nan)
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    good, bad = read_rows(out)
    assert (bool(good["predicted_weight"]), good["reason"]) == (True, "")
    assert (bad["predicted_weight"], bad["reason"]) == ("", "the prediction is not a finite number")


def test_leftovers_of_a_killed_prediction_are_removed(run, tmp_path):
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    left = tmp_path / f".p.csv~{platform.node()}~{2**22 + 1}~abcdefgh"  # no process has this number
    left.write_bytes(b"smi")
    out = tmp_path / "p.csv"
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"new.csv", "p.csv"}


def test_an_output_never_replaces_the_input_or_the_model(rings, tmp_path, capsys):
    """A file of a folder of graphs, a file of the run, and a link to one."""
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(5, 3)], new / "g.pt")
    (new / "notes.csv").write_text("mine")
    (tmp_path / "link.csv").symlink_to(new / "notes.csv")
    metrics = (rings / "metrics.csv").read_bytes()
    inside = "is a file of the input"
    for out, reason in (
        (new / "notes.csv", inside),
        (tmp_path / "link.csv", inside),
        (rings / "metrics.csv", "is a file of the model"),
    ):
        assert main(["predict", str(rings), str(new), "--out", str(out)]) == 2
        assert f"{out}: {reason}" in capsys.readouterr().err
    assert (new / "notes.csv").read_text() == "mine"
    assert (rings / "metrics.csv").read_bytes() == metrics
    assert main(["predict", str(rings), str(new), "--out", str(rings / "mine.csv")]) == 0


def test_the_name_of_an_output_says_its_format(rings, tmp_path, capsys):
    new = tmp_path / "new"
    new.mkdir()
    torch.save([_ring(5, 3)], new / "g.pt")
    texts = {}
    for name in ("p.csv", "p.TSV", "p.txt", "p.csv.gz", "p.tsv.GZ"):
        assert main(["predict", str(rings), str(new), "--out", str(tmp_path / name)]) == 0
        data = (tmp_path / name).read_bytes()
        texts[name] = (gzip.decompress(data) if name.lower().endswith("gz") else data).decode()
    assert texts["p.csv"].startswith("graph,predicted_0,reason")
    assert texts["p.csv"] == texts["p.txt"] == texts["p.csv.gz"]
    assert texts["p.TSV"] == texts["p.tsv.GZ"] == texts["p.csv"].replace(",", "\t")
    for name in ("p.xlsx", "p.parquet", "p", "p.gz"):
        assert main(["predict", str(rings), str(new), "--out", str(tmp_path / name)]) == 2
        assert f"{name}: predictions are written to .csv" in capsys.readouterr().err
        assert not (tmp_path / name).exists()
