from __future__ import annotations

import json
import pickle
import zipfile

import numpy as np
import pytest
import torch

from eigenformer.data import BENCHMARKS, DataError, zinc
from eigenformer.data.workspace import Workspace
from eigenformer.reporting import Reporter


@pytest.fixture(scope="module")
def archive(raw_dir, tmp_path_factory):
    files = Workspace(raw_dir, tmp_path_factory.mktemp("cache")).locate("zinc", zinc.LAYOUTS)
    return zinc.build(files, Reporter())


def test_totals_and_first_targets(archive):
    counts = archive.statistics
    assert (counts.nodes, counts.edges) == (277_864, 2 * 298_985)
    assert counts.splits == (10_000, 1_000, 1_000)
    assert BENCHMARKS["zinc"].differences(counts) == []
    targets = archive.fields["y"].values
    np.testing.assert_allclose(targets[:3], [0.83503556, -2.1935492, 1.8422303])


def test_types_are_those_the_preset_knows(archive):
    x, bonds = archive.fields["x"].values, archive.fields["edge_attr"].values
    assert (x.min(), x.max(), x.shape[1]) == (0, 20, 1)
    assert np.unique(bonds).tolist() == [1, 2, 3]
    assert archive[0].x.dtype == archive[0].edge_attr.dtype == torch.int64
    assert archive[0].y.shape == (1,)


def test_edges_go_both_ways_row_major(archive):
    for index in (0, 1, 11_999):
        graph = archive[index]
        forward = list(zip(*graph.edge_index.tolist(), graph.edge_attr.tolist(), strict=True))
        assert forward == sorted(forward)
        assert sorted((j, i, bond) for i, j, bond in forward) == forward


def test_words_beyond_the_12k_are_unknown():
    assert zinc.model_types(np.array([0, 20, 21, 27], np.uint8)).tolist() == [0, 20, 21, 21]
    assert len(zinc.ATOM_WORDS) == 28


def test_another_vocabulary_is_noticed(raw_dir, tmp_path):
    (tmp_path / "zinc12k.npz").symlink_to(raw_dir / "zinc" / "zinc12k.npz")
    words = json.loads((raw_dir / "zinc" / "vocab.json").read_text())
    words["atom"]["3"] = "Xe"
    (tmp_path / "vocab.json").write_text(json.dumps(words))
    with pytest.raises(DataError, match=r"vocab\.json: its atom words"):
        zinc.build([tmp_path / "zinc12k.npz"], Reporter())


def test_the_official_files(tmp_path):
    """Three molecules per split, in the form of the official zip; the index chooses two."""

    def molecule(number):
        bonds = torch.zeros(3, 3, dtype=torch.long)
        bonds[0, 1] = bonds[1, 0] = 2
        bonds[1, 2] = bonds[2, 1] = 1
        return {
            "num_atom": 3,
            "atom_type": torch.tensor([0, 5, 20 + number]),
            "bond_type": bonds,
            "logP_SA_cycle_normalized": torch.tensor([float(number)]),
        }

    with zipfile.ZipFile(tmp_path / "molecules.zip", "w") as file:
        for split in ("train", "val", "test"):
            data = pickle.dumps([molecule(number) for number in range(3)], protocol=4)
            file.writestr(f"molecules/{split}.pickle", data)
            (tmp_path / f"{split}.index").write_text("2,0\n")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "zinc").symlink_to(tmp_path)
    files = Workspace(tmp_path / "raw", tmp_path).locate("zinc", zinc.LAYOUTS)
    archive = zinc.build(files, Reporter())
    assert archive.statistics.splits == (2, 2, 2)
    assert archive[0].x.tolist() == [[0], [5], [21]]
    assert archive[1].x.tolist() == [[0], [5], [20]]
    assert [graph.y.item() for graph in archive] == [2, 0] * 3
    assert archive[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert archive[0].edge_attr.tolist() == [2, 2, 1, 1]
