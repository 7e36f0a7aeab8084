from __future__ import annotations

import os
import pickle

import pytest
import torch
from torch_geometric.data import Data

from eigenformer.config import ConfigError, OwnData
from eigenformer.data import DataError, ReadOptions, SplitOptions, read_own
from eigenformer.data.reading import suited
from tests.data.samples import equal_archives, random_graphs


def test_a_folder_of_pyg_graphs(tmp_path):
    graphs = random_graphs(0, 5)
    torch.save(graphs[0], tmp_path / "a.pt")
    torch.save(graphs[1:], tmp_path / "b.pt")
    archive = read_own(tmp_path, split=SplitOptions("random", split_seed=1)).archive
    assert list(archive.names) == ["a", "b/0", "b/1", "b/2", "b/3"]
    for one, other in zip(archive, graphs, strict=True):
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.x, other.x)
    assert archive.target.kind == "regression"
    assert archive.target.num_outputs == 3
    assert archive.statistics.splits == (4, 0, 1)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("PWNED",)


def test_a_folder_of_pyg_graphs_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graphs").mkdir()
    torch.save(Data(x=torch.ones(1, 1), evil=Evil()), tmp_path / "graphs" / "a.pt")
    with pytest.raises(DataError, match=r"a\.pt: not a file of PyG Data"):
        read_own(tmp_path / "graphs")
    (tmp_path / "graphs" / "a.pt").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match=r"a\.pt: not a file of PyG Data"):
        read_own(tmp_path / "graphs")
    assert not (tmp_path / "PWNED").exists()


def test_what_is_no_data(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read_own(tmp_path / "nowhere")
    with pytest.raises(DataError, match="not graphs: expected"):
        read_own(tmp_path)
    (tmp_path / "table.txt").write_text("smiles\nC\n")
    with pytest.raises(DataError, match=r"table\.txt: not graphs: expected"):
        read_own(tmp_path / "table.txt")


def test_options_are_checked():
    with pytest.raises(ConfigError, match="the nearest is 'stratified'"):
        SplitOptions.from_dict({"split_by": "stratifed"})
    with pytest.raises(ConfigError, match="the nearest is 'targets'"):
        ReadOptions.from_dict({"target": ["y"]})
    with pytest.raises(ConfigError, match="add up to 1"):
        SplitOptions(fractions=(0.5, 0.5, 0.5))
    with pytest.raises(ConfigError, match="cannot be combined"):
        OwnData(dataset="m.csv", split_by="random", split_column="fold")


def test_splits_that_cannot_be(tmp_path):
    torch.save([Data(x=torch.ones(2, 1), y=torch.zeros(2))] * 3, tmp_path / "a.pt")
    with pytest.raises(DataError, match="'stratified' needs targets of graphs"):
        read_own(tmp_path, split=SplitOptions("stratified"))
    with pytest.raises(DataError, match="'scaffold' needs molecules"):
        read_own(tmp_path, split=SplitOptions("scaffold"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a file of PyG Data"),
        (b"text", "not a file of PyG Data"),
        (b"PK\x03\x04broken", "not a file of PyG Data"),
        ([], "no graphs in its .pt files"),
        ({"x": 1}, "holds a dict, expected PyG Data"),
        ([Data(x=torch.ones(1, 1)), {}], "holds a dict, expected PyG Data"),
        (torch.ones(3), "holds a Tensor, expected PyG Data"),
    ],
)
def test_odd_files_of_graphs(tmp_path, data, message):
    if isinstance(data, bytes):
        (tmp_path / "a.pt").write_bytes(data)
    else:
        torch.save(data, tmp_path / "a.pt")
    with pytest.raises(DataError, match=message):
        read_own(tmp_path)


def test_the_task_of_pyg_graphs_can_be_said(tmp_path):
    torch.save([Data(x=torch.ones(2, 1), y=torch.tensor([n])) for n in (0, 1)], tmp_path / "a.pt")
    assert read_own(tmp_path).archive.target.kind == "binary"
    task = read_own(tmp_path, ReadOptions(task="multiclass")).archive.target
    assert (task.kind, task.num_outputs) == ("multiclass", 2)
    torch.save([Data(x=torch.ones(2, 1))], tmp_path / "a.pt")
    with pytest.raises(DataError, match="task: 'binary', but the graphs have no target y"):
        read_own(tmp_path, ReadOptions(task="binary"))


def test_options_that_suit(tmp_path):
    torch.save(random_graphs(0, 3), tmp_path / "a.pt")
    options = ReadOptions(undirected=True, featurizer="zinc", task="multiclass")
    with pytest.raises(ConfigError, match="featurizer: says nothing about PyG graphs"):
        read_own(tmp_path, options)
    assert suited(options, tmp_path) == ReadOptions(task="multiclass")


def test_an_archive_is_read_as_it_is(saved):
    assert equal_archives(read_own(saved.path).archive, saved)


def test_scaffolds_of_pyg_graphs_with_smiles(tmp_path):
    pytest.importorskip("rdkit")
    graphs = random_graphs(0, 4)
    for graph, smiles in zip(graphs, ["c1ccccc1", "C1CC1", "c1ccccc1C", "c1ccccc1O"], strict=True):
        graph.smiles = smiles
    torch.save(graphs, tmp_path / "a.pt")
    split = SplitOptions("scaffold", (0.75, 0.25, 0.0))
    assert read_own(tmp_path, split=split).archive.split.tolist() == [0, 1, 0, 0]
