from __future__ import annotations

import csv
import gzip
import io
import pickle
import zipfile

import numpy as np
import pytest
import torch

from eigenformer.data import BENCHMARKS, DataError, peptides
from eigenformer.data.workspace import Workspace
from eigenformer.reporting import Reporter


def real_rows(raw_dir, count=None):
    with gzip.open(raw_dir / "peptides-func" / "peptides_func.csv.gz", "rt") as stream:
        return list(csv.DictReader(stream))[:count]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def build(name, raw, cache):
    files = Workspace(raw, cache).locate(name, peptides.LAYOUTS[name])
    return peptides.build(name, files, Reporter())


def test_the_first_hundred_peptides(raw_dir, tmp_path):
    rows = real_rows(raw_dir, 100)
    write(tmp_path / "raw" / "peptides-func" / "peptides_func.csv.gz", rows)
    archive = build("peptides-func", tmp_path / "raw", tmp_path)
    graph = archive[4]
    assert graph.x.shape[1] == 9
    assert graph.edge_attr.shape[1] == 3
    assert graph.y.shape == (1, 10)
    assert graph.y.dtype == torch.float32
    assert graph.y[0].int().tolist() == [int(c) for c in rows[4]["labels"]]
    assert list(archive.names) == [row["smiles"] for row in rows]
    names = ["train", "val", "test"]
    assert [names[place] for place in archive.split] == [row["split"] for row in rows]
    assert not archive.statistics.directed


def test_the_splits_of_the_real_table(raw_dir):
    splits = [row["split"] for row in real_rows(raw_dir)]
    counts = [splits.count(name) for name in ("train", "val", "test")]
    assert counts == [10_873, 2_331, 2_331]


@pytest.mark.slow
def test_published_totals(raw_dir, tmp_path):
    archive = build("peptides-func", raw_dir, tmp_path)
    counts = archive.statistics
    assert (counts.nodes, counts.edges) == (2_344_859, 4_773_974)
    assert BENCHMARKS["peptides-func"].differences(counts) == []


STRUCT_ROWS = [
    {"smiles": smiles, **{name: str(i * (k + 1) + k) for k, name in enumerate(peptides.STRUCTURES)}}
    for i, smiles in enumerate(["CC(N)C(=O)O", "NCC(=O)O", "NCC(=O)NCC(=O)O"])
]


def test_struct_with_its_own_split_file(tmp_path):
    folder = tmp_path / "raw" / "peptides-struct"
    write(folder / "peptide_structure_dataset.csv.gz", STRUCT_ROWS)
    split = {"train": np.array([2]), "val": np.array([0]), "test": np.array([1])}
    (folder / "splits_random_stratified_peptide_structure.pickle").write_bytes(pickle.dumps(split))
    archive = build("peptides-struct", tmp_path / "raw", tmp_path)
    assert archive.split.tolist() == [1, 2, 0]
    targets = archive.fields["y"].values
    assert targets.shape == (3, 11)
    np.testing.assert_allclose(targets.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(targets.std(0, ddof=1), 1, atol=1e-6)
    assert archive.target.num_outputs == 11
    assert archive[0].x.shape[1] == 9


def test_struct_with_the_split_of_func(tmp_path):
    write(tmp_path / "raw" / "peptides-struct" / "peptide_structure_dataset.csv.gz", STRUCT_ROWS)
    func = tmp_path / "raw" / "peptides-func" / "peptides_func.csv.gz"
    write(func, [{"split": s, "smiles": "C", "labels": "0"} for s in ("test", "train", "val")])
    archive = build("peptides-struct", tmp_path / "raw", tmp_path)
    assert archive.split.tolist() == [2, 0, 1]
    write(func, [{"split": "test", "smiles": "C", "labels": "0"}])
    with pytest.raises(DataError, match="splits 1 rows, expected 3"):
        build("peptides-struct", tmp_path / "raw", tmp_path)


def test_a_smiles_that_is_none_has_its_line(tmp_path):
    rows = [{"split": "train", "smiles": s, "labels": "0" * 10} for s in ("C", "xyz")]
    write(tmp_path / "raw" / "peptides-func" / "peptides_func.csv.gz", rows)
    with pytest.raises(DataError, match=r"csv\.gz, line 3: 'xyz': invalid SMILES"):
        build("peptides-func", tmp_path / "raw", tmp_path)


def test_the_official_files(tmp_path):
    def graph(number):
        return (
            torch.full((3, 9), number),
            torch.ones(2, 3, dtype=torch.long),
            torch.tensor([[0, 1], [1, 0]]),
            torch.full((1, 10), float(number)),
        )

    file = tmp_path / "peptidesfunc.zip"
    with zipfile.ZipFile(file, "w") as archive_file:
        for split, number in (("train", 1), ("val", 2), ("test", 3)):
            buffer = io.BytesIO()
            torch.save([graph(number)], buffer)
            archive_file.writestr(f"peptidesfunc/{split}.pt", buffer.getvalue())
    archive = peptides.build("peptides-func", [file], Reporter())
    assert archive.statistics.splits == (1, 1, 1)
    assert [graph.y[0, 0].item() for graph in archive] == [1, 2, 3]
    assert archive[1].x.tolist() == [[2] * 9] * 3
