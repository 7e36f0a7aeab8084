from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from eigenformer.data import DataError, GraphArchive, ReadOptions, SplitOptions, read_own
from eigenformer.data.splits import scaffold_split

pytest.importorskip("rdkit")

TABLE = """id,structure,logP,active,fold
a,CCO,0.5,1,train
b,xyz,1.0,0,train
c,c1ccccc1,,0,valid
d,C(C)(C)(C)(C)C,2.0,1,test
e,CC(=O)O,high,1,test
a,CCC,1.0,0,test
g,[Na+].[Cl-],-3.5,,test
h,CCN,1.0,0,nowhere
i,CCCC,inf,0,train
j,CCCCC,1.25,1,
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "molecules.csv"
    path.write_text(TABLE)
    return path


OPTIONS = ReadOptions(
    smiles="structure", targets=("logP", "active"), identifier="id", split_column="fold"
)


def test_good_rows_are_in_and_bad_ones_reported(path):
    read = read_own(path, OPTIONS)
    assert list(read.archive.names) == ["a", "c", "g", "j"]
    targets = read.archive.fields["y"].values
    np.testing.assert_array_equal(targets, [[0.5, 1], [np.nan, 0], [-3.5, np.nan], [1.25, 1]])
    assert read.archive.split.tolist() == [0, 1, 2, 255]
    assert read.archive.target.kind == "regression"
    assert read.archive.target.names == ("logP", "active")
    found = {item.problem.line: item.problem.reason for item in read.rejected}
    assert list(found) == [3, 5, 6, 7, 9, 10]
    assert found[3] == "'xyz': invalid SMILES"
    assert "valence" in found[5]
    assert found[6] == "logP: 'high' is not a number"
    assert found[7] == "id: 'a' already appears on line 2"
    assert found[9] == "split 'nowhere': unknown (known: test, train, val)"
    assert found[10] == "logP: 'inf' is not finite"
    assert all(item.problem.file == str(path) for item in read.rejected)


def test_nothing_is_lost(path, tmp_path):
    read = read_own(path, OPTIONS)
    saved = read.archive.save(tmp_path / "archive")
    rejected = GraphArchive.open(saved.path).meta["rejected"]
    assert len(saved) + len(rejected) == 10
    assert rejected[0]["row"] == {
        "id": "b",
        "structure": "xyz",
        "logP": "1.0",
        "active": "0",
        "fold": "train",
    }
    assert rejected[0]["line"] == 3


def test_one_target_is_one_number_per_graph(path):
    archive = read_own(path, ReadOptions(smiles="structure", targets=("active",))).archive
    assert archive.fields["y"].values.ndim == 1
    assert archive.target.kind == "binary"
    assert archive.names[0] == "CCO"
    assert archive[0].y.shape == (1,)


def test_without_targets(path):
    archive = read_own(path, ReadOptions(smiles="structure")).archive
    assert set(archive.fields) == {"x", "edge_attr"}
    assert archive.target is None


def test_classes(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("smiles\tkind\nC\tred\nCC\tblue\nCCC\tred\nCCCC\t\n")
    read = read_own(path, ReadOptions(targets=("kind",), task="multiclass"))
    assert read.archive.fields["y"].values.tolist() == [1, 0, 1]
    assert read.archive.target.names == ("blue", "red")
    assert read.archive.target.num_outputs == 2
    assert [item.problem.reason for item in read.rejected] == ["kind: missing class"]


def test_several_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles,a,b\nC,0,1\nCC,1,\n")
    task = read_own(path, ReadOptions(targets=("a", "b"))).archive.target
    assert (task.kind, task.num_outputs) == ("multilabel", 2)


def test_all_rows_bad_is_an_error_with_all_reasons(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles\nxyz\nabc\n")
    with pytest.raises(DataError, match=r"line 2: 'xyz'.*\n.*line 3: 'abc'"):
        read_own(path)


def test_a_missing_column(path):
    with pytest.raises(DataError, match=r"csv, line 1: column 'smiles': unknown .known: active"):
        read_own(path)
    with pytest.raises(DataError, match="the nearest is 'logP'"):
        read_own(path, ReadOptions(smiles="structure", targets=("logp",)))


@pytest.mark.parametrize("method", ["random", "stratified", "scaffold"])
def test_splits_of_molecules(tmp_path, method):
    path = tmp_path / "t.csv"
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "C1CCC1"]
    smiles = [ring + "C" * n for ring in rings for n in range(8)]
    rows = "".join(f"{i},{s},{i % 2}\n" for i, s in enumerate(smiles))
    path.write_text("id,smiles,y\n" + rows)
    options = ReadOptions(targets=("y",), identifier="id")
    archive = read_own(path, options, SplitOptions(method, (0.6, 0.2, 0.2))).archive
    assert archive.statistics.splits == (24, 8, 8)
    if method == "scaffold":
        assert archive.split.tolist() == scaffold_split(smiles, (0.6, 0.2, 0.2)).tolist()


def test_the_zinc_words(path):
    archive = read_own(path, ReadOptions(smiles="structure", featurizer="zinc")).archive
    assert archive[0].x.tolist() == [[0], [0], [1]]
    assert archive.meta["featurizer"] == "zinc"


def test_a_row_of_another_width_is_a_bad_row(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles,y\nC,1\nxyz,2\nCC\nCCC,3\nCCCC,1e40\n")
    read = read_own(path, ReadOptions(targets=("y",)))
    assert list(read.archive.names) == ["C", "CCC"]
    assert {item.problem.line: item.problem.reason for item in read.rejected} == {
        3: "'xyz': invalid SMILES",
        4: "1 cells, but the header has 2",
        6: "y: '1e40' exceeds single precision, at most 3.4e38",
    }


def test_smiles_are_kept_where_names_are_others(path, tmp_path):
    archive = read_own(path, OPTIONS).archive.save(tmp_path / "archive")
    assert archive[1].smiles == "c1ccccc1"
    assert archive.subset([1])[0].smiles == "c1ccccc1"


def test_truth_in_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"smiles": ["C", "CC", "CCC"], "active": [True, False, None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    archive = read_own(tmp_path / "t.parquet", ReadOptions(targets=("active",))).archive
    assert archive.target.kind == "binary"
    np.testing.assert_array_equal(archive.fields["y"].values, [1, 0, np.nan])


def test_graphs_are_not_kept_in_memory(tmp_path):
    """Of each row, its cells are: the graphs of 1,000 chains of 60 atoms take 10 kB each."""
    read_own(write_chains(tmp_path / "few.csv", 10), LENGTHS)  # loads RDKit
    tracemalloc.start()
    try:
        archive = read_own(write_chains(tmp_path / "many.csv", 1000), LENGTHS).archive
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(archive) == 1000
    assert archive.num_nodes.tolist() == [50 + i % 20 for i in range(1000)]
    assert peak < 2000 * len(archive)
    saved = archive.save(tmp_path / "saved")
    assert saved.edge_index.dtype == np.uint8
    for graph in (0, 999):
        size = 50 + graph % 20
        assert archive[graph].x.shape == saved[graph].x.shape == (size, 9)
        ends = saved[graph].edge_index
        assert ends.tolist() == archive[graph].edge_index.tolist()
        assert ends[:, ::2].tolist() == [list(range(size - 1)), list(range(1, size))]


LENGTHS = ReadOptions(targets=("length",))


def write_chains(path, count):
    rows = "".join(f"{'C' * (50 + i % 20)},{i}\n" for i in range(count))
    path.write_text("smiles,length\n" + rows)
    return path
