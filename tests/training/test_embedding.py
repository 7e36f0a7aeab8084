"""``eigenformer embed``: the network's own representations, in the order of the input."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer import TrainedModel
from eigenformer.cli import main
from eigenformer.config import InputFormat, OwnData
from eigenformer.data import DataError, GraphArchive
from eigenformer.models import Model, build_model
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.models.ensemble import Ensemble
from eigenformer.pools import Pool
from eigenformer.spectrum import LaplacianSpectrum
from eigenformer.targets import LabelTarget, NumberTarget
from eigenformer.training import table_prediction
from eigenformer.training.embedding import embed_file
from tests.graphs import random_graph, small_config
from tests.training.samples import read_rows

SMILES = ["CCO", "not a molecule", "c1ccccc1O", "CCN", "", "C" * 9]
GOOD = [0, 2, 3, 5]


@pytest.fixture
def molecules(tmp_path: Path) -> Path:
    lines = [f"m{i},{smiles},=1+{i}\n" for i, smiles in enumerate(SMILES)]
    (tmp_path / "m.csv").write_text("id,smiles,note\n" + "".join(lines))
    return tmp_path / "m.csv"


@pytest.fixture(scope="module")
def trained(run: Path) -> TrainedModel:
    return TrainedModel.open(run)


@pytest.fixture
def expected(trained: TrainedModel) -> np.ndarray:
    """What the network itself says of the four molecules."""
    batch = trained.dataset(trained.molecules([SMILES[i] for i in GOOD])).batch(range(4))
    with torch.no_grad():
        return trained.model.embed(batch).graphs.numpy()  # type: ignore[union-attr]


def channels(row: dict[str, str]) -> list[str]:
    return [value for name, value in row.items() if name.startswith("embedding_")]


def test_every_row_keeps_its_place_in_a_text_file(
    run: Path, molecules: Path, expected: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    out = molecules.with_name("e.csv")
    assert main(["embed", str(run), str(molecules), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"4 of 6 rows embedded (16 channels per row), written to {out}" in said
    assert "'reason' says why" in said
    rows = read_rows(out)
    assert list(rows[0])[:4] == ["id", "smiles", "note", "embedding_0"]
    assert [row["id"] for row in rows] == [f"m{i}" for i in range(6)]
    found = np.array([channels(rows[i]) for i in GOOD], np.float32)
    assert np.allclose(found, expected, atol=1e-5)
    assert rows[1]["reason"] == "'not a molecule': a SMILES has no blanks"
    assert not any(channels(rows[1]) + channels(rows[4]))


def test_all_formats_hold_the_same(trained: TrainedModel, molecules: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = molecules.parent
    for name in ("e.csv", "e.parquet", "e.npz"):
        assert embed_file(trained, molecules, folder / name).predicted == 4
    rows = read_rows(folder / "e.csv")
    table = parquet.read_table(folder / "e.parquet")
    assert table.column_names == list(rows[0])
    assert table["embedding_3"].to_pylist()[1] is None
    assert table["reason"].to_pylist() == [row["reason"] or None for row in rows]
    assert table["note"].to_pylist() == [row["note"] for row in rows]
    stored = np.stack([table[f"embedding_{i}"].to_numpy() for i in range(16)], 1)
    with np.load(folder / "e.npz", allow_pickle=False) as arrays:
        assert sorted(arrays) == ["embeddings", "failed", "graph", "reason"]
        assert np.array_equal(arrays["embeddings"], stored, equal_nan=True)
        assert arrays["embeddings"].dtype == stored.dtype == np.float32
        assert arrays["failed"].tolist() == [1, 4]
        assert arrays["reason"].tolist() == [rows[1]["reason"], rows[4]["reason"]]
        assert arrays["graph"].tolist() == list(range(6))
    text = np.array([channels(rows[i]) for i in GOOD], np.float32)
    assert np.array_equal(text, stored[GOOD])  # text has every digit
    assert sorted(path.name for path in folder.iterdir()) == [
        *("e.csv", "e.npz", "e.parquet", "m.csv")
    ]


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_nodes(trained: TrainedModel, molecules: Path, suffix: str) -> None:
    out = molecules.with_name(f"n.{suffix}")
    counts = embed_file(trained, molecules, out, nodes=True)
    assert (counts.rows, counts.predicted) == (6, 4)
    whole = trained.embed([SMILES[i] for i in GOOD], nodes=True).numpy()
    sizes = [3, 7, 3, 9]
    graphs = [0] * 3 + [1] + [2] * 7 + [3] * 3 + [4] + [5] * 9
    nodes = [*range(3), -1, *range(7), *range(3), -1, *range(9)]
    assert len(whole) == sum(sizes)
    if suffix == "npz":
        with np.load(out) as arrays:
            assert arrays["graph"].tolist() == graphs
            assert arrays["node"].tolist() == nodes
            found = arrays["embeddings"]
            assert np.isnan(found[3]).all()
            found = np.delete(found, [3, 14], 0)
    else:
        rows = read_rows(out)
        assert [row["id"] for row in rows] == [f"m{graph}" for graph in graphs]
        assert [row["node"] for row in rows] == [str(n) if n >= 0 else "" for n in nodes]
        found = np.array([channels(row) for row in rows if row["node"]], np.float32)
    assert np.allclose(found, whole, atol=1e-5)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_pieces_and_processes_change_nothing(
    trained: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(table_prediction, "CHUNK", 4)
    monkeypatch.setattr(table_prediction, "_MANY", 8)
    smiles = ["C" * (1 + i % 7) + "ON"[i % 2] for i in range(14)]
    smiles[6] = "C1C"
    (tmp_path / "m.csv").write_text("smiles\n" + "\n".join(smiles) + "\n")
    out = tmp_path / "e.npz"
    embed_file(trained, tmp_path / "m.csv", out, nodes=True, pool=Pool(workers))
    with np.load(out) as arrays:
        assert arrays["failed"].tolist() == [6]
        good = [text for i, text in enumerate(smiles) if i != 6]
        expected = trained.embed(good, nodes=True, batch_size=5).numpy()
        found = arrays["embeddings"][arrays["graph"] != 6]
        assert np.allclose(found, expected, atol=1e-5)


def test_a_stopped_text_file_continues(
    trained: TrainedModel, molecules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_prediction, "CHUNK", 2)
    whole, out = molecules.with_name("whole.csv"), molecules.with_name("e.csv")
    embed_file(trained, molecules, whole, nodes=True)
    computed, calls = table_prediction.RowPredictor.__call__, []

    def stopped(self: object, rows: table_prediction.Rows) -> object:
        calls.append(len(rows))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return computed(self, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(table_prediction.RowPredictor, "__call__", stopped)
    for name in ("e.csv", "e.npz"):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            embed_file(trained, molecules, molecules.with_name(name), nodes=True)
    calls[:] = [0, 0]
    embed_file(trained, molecules, out, nodes=True)
    assert calls[2:] == [2, 2]  # only the rest
    assert out.read_bytes() == whole.read_bytes()
    names = sorted(path.name for path in molecules.parent.iterdir())
    assert names == ["e.csv", "m.csv", "whole.csv"]  # what was half an npz is gone


def test_the_order_of_nodes_and_the_size_of_batches_change_nothing() -> None:
    trained = untrained(Eigenformer(small_config()).eval())
    graphs = [random_graph(n) for n in (5, 9, 7)]
    whole = trained.embed(graphs)
    assert whole.shape == (3, 16)
    assert torch.allclose(trained.embed(graphs, batch_size=1), whole, atol=1e-5)
    new = torch.randperm(9)  # node i becomes node new[i]
    moved = graphs[1].clone()
    moved.x = torch.empty_like(moved.x).index_copy(0, new, moved.x)
    moved.edge_index = new[moved.edge_index]
    moved = LaplacianSpectrum()(moved)
    assert torch.allclose(trained.embed([moved])[0], whole[1], atol=1e-4)
    before, after = (trained.embed([data], nodes=True) for data in (graphs[1], moved))
    assert torch.allclose(after[new], before, atol=1e-4)
    assert not torch.allclose(after, before, atol=1e-2)


def untrained(model: object, **changes: object) -> TrainedModel:
    """A model with new weights, ready to be asked."""
    values = {"target": NumberTarget(names=("y",)), **changes}
    return TrainedModel(
        "small", model, input_format=InputFormat(), data=OwnData(dataset="none"), **values
    )  # type: ignore[arg-type]


def test_an_archive_of_graphs(tmp_path: Path) -> None:
    trained = untrained(Eigenformer(small_config()).eval())
    graphs = [random_graph(n) for n in (4, 6)]
    names = ["a", "b"]
    plain = [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in graphs]
    GraphArchive.from_data_list(plain, names=names).save(tmp_path / "graphs")
    embed_file(trained, tmp_path / "graphs", tmp_path / "e.csv")
    embed_file(trained, tmp_path / "graphs", tmp_path / "e.npz", nodes=True)
    with (tmp_path / "e.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["graph", *(f"embedding_{i}" for i in range(16)), "reason"]
    assert [row[0] for row in rows] == names
    found = np.array([row[1:-1] for row in rows], np.float32)
    assert np.allclose(found, trained.embed(graphs).numpy(), atol=1e-5)
    with np.load(tmp_path / "e.npz") as arrays:
        assert arrays["graph"].tolist() == [0] * 4 + [1] * 6
        assert arrays["node"].tolist() == [*range(4), *range(6)]
        nodes = trained.embed(graphs, nodes=True).numpy()
        assert np.allclose(arrays["embeddings"], nodes, atol=1e-5)


def test_an_ensemble_shows_its_first_member(trained: TrainedModel) -> None:
    other = build_model(trained.model.config).eval()
    pair = Ensemble([other, trained.model], [trained.target] * 2).eval()
    together = replace(trained, model=pair)
    alone = replace(trained, model=other)
    assert torch.equal(together.embed(["CCO"]), alone.embed(["CCO"]))
    assert not torch.allclose(together.embed(["CCO"]), trained.embed(["CCO"]), atol=1e-3)


def test_a_model_of_nodes_has_no_embeddings_of_graphs(tmp_path: Path) -> None:
    model = Eigenformer(small_config(pooling="none")).eval()
    trained = untrained(model, target=LabelTarget(num_outputs=1, kind="binary", level="node"))
    data = random_graph(5)
    assert trained.embed([data], nodes=True).shape == (5, 16)
    with pytest.raises(ValueError, match="predicts for nodes, and has no embeddings of graphs"):
        trained.embed([data])
    with pytest.raises(ValueError, match="--nodes"):
        embed_file(trained, tmp_path, tmp_path / "e.csv")


def test_a_network_that_does_not_tell_its_embeddings(
    trained: TrainedModel, molecules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Eigenformer, "embed", Model.embed)
    with pytest.raises(ValueError, match="run: eigenformer does not tell its embeddings"):
        embed_file(trained, molecules, molecules.with_name("e.csv"))


def test_mistakes(trained: TrainedModel, molecules: Path) -> None:
    folder = molecules.parent
    with pytest.raises(DataError, match=r"written to .parquet, .npz or .csv, .tsv, .txt files"):
        embed_file(trained, molecules, folder / "e.npy")
    with pytest.raises(DataError, match="is the input; give another name"):
        embed_file(trained, molecules, molecules)
    with pytest.raises(DataError, match="only text files have formulas to escape"):
        embed_file(trained, molecules, folder / "e.npz", escape_formulas=True)
    with pytest.raises(DataError, match="choose one with --smiles"):
        embed_file(trained, molecules, folder / "e.npz", smiles="smile")
    embed_file(trained, molecules, folder / "e.csv", escape_formulas=True)
    assert read_rows(folder / "e.csv")[0]["note"] == "'=1+0"
    assert sorted(path.name for path in folder.iterdir()) == ["e.csv", "m.csv"]
