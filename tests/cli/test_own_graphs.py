"""Graphs that are not molecules, from the user's files to predictions."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.cli import main
from eigenformer.data import GraphArchive
from eigenformer.trained_model import TrainedModel

_SMALL = (
    *("--epochs", "1", "--batch-size", "16", "--threads", "1"),
    *("--model.layers", "1", "--model.hidden_dim", "8", "--model.phi_width", "2"),
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EIGENFORMER_CACHE_DIR", str(tmp_path / "cache"))


def _graphs(shape: tuple[int, ...] = (1,)) -> list[Data]:
    """Graphs as PyG's own datasets have them: a class per graph, and no word about it."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x = torch.eye(3)[torch.arange(5) % 3]
    return [Data(x=x, edge_index=edges, y=torch.full(shape, i % 6)) for i in range(60)]


@pytest.mark.parametrize(
    ("options", "kind", "outputs"),
    [((), "multiclass", 6), (("--task", "regression"), "regression", 1)],
)
@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_a_dataset_of_pyg_trains_as_it_is(options, kind, outputs, shape):
    GraphArchive.from_data_list(_graphs(shape)).save("dataset")
    train = ["train", "dataset", "--out", "run", "--split-by", "stratified", *options, *_SMALL]
    assert main(train) == 0
    trained = TrainedModel.open("run")
    assert (trained.target.kind, trained.target.num_outputs) == (kind, outputs)
    counts = [len(trained.graphs(split=split)) for split in ("train", "val", "test")]
    assert counts == [48, 6, 6]


def test_other_graphs_without_a_target_are_of_the_models_kind():
    GraphArchive.from_data_list(_graphs()).save("dataset")
    assert main(["train", "dataset", "--out", "run", *_SMALL]) == 0
    # Zeros and ones alone would be labels.
    GraphArchive.from_data_list(_graphs()[:2]).save("other")
    assert main(["evaluate", "run", "--data", "other"]) == 0


def test_a_task_that_the_values_are_not_of(capsys):
    GraphArchive.from_data_list(_graphs()).save("dataset")
    assert main(["train", "dataset", "--task", "binary", *_SMALL]) == 2
    assert "task: 'binary', but not all targets are 0 or 1" in capsys.readouterr().err


def test_a_folder_of_pt_files_trains(tmp_path):
    (tmp_path / "graphs").mkdir()
    torch.save(_graphs(), tmp_path / "graphs" / "all.pt")
    assert main(["train", "graphs", "--out", "run", *_SMALL]) == 0
    assert TrainedModel.open("run").target.kind == "multiclass"


def test_tables_with_names_remarks_and_edges_in_one_direction(tmp_path, capsys):
    folder = tmp_path / "tables"
    folder.mkdir()
    names = [f"g{i}" for i in range(20)]
    nodes = [f"{g},{n},{i}.5,Rome,{int(n == 'u')}" for i, g in enumerate(names) for n in "uvw"]
    edges = [f"{g},{pair[0]},{pair[1]}" for g in names for pair in ("uv", "vw")]
    (folder / "graphs.csv").write_text("\n".join(["graph", *names]))
    (folder / "nodes.csv").write_text("\n".join(["graph,node,age,city,label", *nodes]))
    (folder / "edges.csv").write_text("\n".join(["graph,source,target", *edges]))
    train = ["train", "tables", "--target", "label", "--out", "run", *_SMALL]
    assert main(train) == 2
    assert "column 'city' holds text, such as 'Rome'" in capsys.readouterr().err
    assert main([*train, "--ignore", "city", "--undirected"]) == 0
    expected = TrainedModel.open("run").input_format
    assert expected.undirected
    assert (expected.node_features, expected.ignored_columns) == (("age",), ("city",))
    assert TrainedModel.open("run").graphs().batch([0]).edge_index.shape == (2, 4)
    assert main(["predict", "run", "tables", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as stream:
        rows = [(row["graph"], row["node"]) for row in csv.DictReader(stream)]
    assert rows == [(graph, node) for graph in names for node in "uvw"]
    # The columns that are left out may be missing in other tables.
    (folder / "nodes.csv").write_text("\n".join(["graph,node,age", *(n[:-7] for n in nodes)]))
    assert main(["predict", "run", "tables", "--out", "out.csv"]) == 0
