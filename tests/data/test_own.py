from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer.config import ConfigError
from eigenformer.data import DataError, OwnData, read_own
from eigenformer.data.own import infer_task
from tests.data.samples import random_graphs


def test_a_folder_of_pyg_graphs(tmp_path):
    graphs = random_graphs(0, 5)
    torch.save(graphs[0], tmp_path / "a.pt")
    torch.save(graphs[1:], tmp_path / "b.pt")
    archive = read_own(tmp_path, OwnData(split="random", seed=1)).archive
    assert list(archive.names) == ["a", "b/0", "b/1", "b/2", "b/3"]
    for one, other in zip(archive, graphs, strict=True):
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.x, other.x)
    assert archive.task.kind == "regression"
    assert archive.task.num_outputs == 3
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


def test_options_are_checked():
    with pytest.raises(ConfigError, match="the nearest is 'stratified'"):
        OwnData.from_dict({"split": "stratifed"})
    with pytest.raises(ConfigError, match="the nearest is 'targets'"):
        OwnData.from_dict({"target": ["y"]})
    with pytest.raises(ConfigError, match="add up to 1"):
        OwnData(fractions=(0.5, 0.5, 0.5))
    with pytest.raises(ConfigError, match="exclude each other"):
        OwnData(split="random", split_column="fold")


def test_splits_that_cannot_be(tmp_path):
    torch.save([Data(x=torch.ones(2, 1), y=torch.zeros(2))] * 3, tmp_path / "a.pt")
    with pytest.raises(DataError, match="'stratified' needs targets of graphs"):
        read_own(tmp_path, OwnData(split="stratified"))
    with pytest.raises(DataError, match="'scaffold' needs molecules"):
        read_own(tmp_path, OwnData(split="scaffold"))


@pytest.mark.parametrize(
    ("values", "kind", "outputs"),
    [
        (np.array([0, 1, 1]), "binary", 1),
        (np.array([0, 4, 2]), "multiclass", 5),
        (np.array([0.0, 1.0, np.nan]), "binary", 1),
        (np.array([[0.0, 1.0], [np.nan, 1.0]]), "multilabel", 2),
        (np.array([[0.5, 1.0]]), "regression", 2),
        (np.array([1.5, 2]), "regression", 1),
    ],
)
def test_tasks_told_by_their_values(values, kind, outputs):
    task = infer_task(values, (), None)
    assert (task.kind, task.num_outputs) == (kind, outputs)
