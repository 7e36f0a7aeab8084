from __future__ import annotations

import gzip

import pytest

from eigenformer.data import DataError
from eigenformer.data.tables import is_missing, is_table, read_table


def test_text_in_every_form(tmp_path):
    for name, text in (("t.csv", "a,b\n1,x\n2,y\n"), ("t.tsv", "a\tb\n1\tx\n2\ty\n")):
        (tmp_path / name).write_text(text)
        with gzip.open(tmp_path / f"{name}.gz", "wt") as stream:
            stream.write(text)
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            table = read_table(path)
            assert table.columns == {"a": ["1", "2"], "b": ["x", "y"]}
            assert table.lines == [2, 3]
            assert table.row(1) == {"a": "2", "b": "y"}


def test_lines_are_those_of_the_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"two\nlines"\n\n2,x\n')
    table = read_table(path)
    assert table.lines == [2, 5]
    assert table.columns["b"] == ["two\nlines", "x"]


def test_windows_files(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffa,b\r\n1,2\r\n".encode())
    assert read_table(path).columns == {"a": ["1"], "b": ["2"]}


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"smiles": ["C", None], "y": [1.5, None]}), path)
    table = read_table(path)
    assert table.columns == {"smiles": ["C", ""], "y": ["1.5", ""]}
    assert table.lines == [2, 3]
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"t\.parquet: not a Parquet file"):
        read_table(path)
    parquet.write_table(arrow.table({"smiles": arrow.array([], "string")}), path)
    with pytest.raises(DataError, match="empty"):
        read_table(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"t\.csv: the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"a,b\n", "a header, but no rows"),
        (b"a,b\n1,2\n3\n4,5,6\n", r"t\.csv, line 3: 1 cells, the header has 2\n.*line 4: 3 cells"),
        (b"a,a\n1,2\n", r"line 1: column 'a' is there twice"),
        (b"a\n\xff\xfe\n", "not UTF-8"),
    ],
)
def test_bad_files(tmp_path, data, message):
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_table(path)


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(DataError, match="not a table"):
        read_table(tmp_path / "t.xlsx")
    (tmp_path / "t.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="damaged gzip"):
        read_table(tmp_path / "t.csv.gz")
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    (tmp_path / "t.csv.gz").write_bytes(whole[:-20])
    with pytest.raises(DataError, match="damaged gzip"):
        read_table(tmp_path / "t.csv.gz")


def test_a_missing_column_names_the_nearest(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("SMILES,target\nC,1\n")
    with pytest.raises(DataError, match=r"column 'Smiles': unknown; the nearest is 'SMILES'"):
        read_table(path).column("Smiles")


@pytest.mark.parametrize("cell", ["", " ", "NaN", "NA", "n/a", "null", "None", "?"])
def test_missing_cells(cell):
    assert is_missing(cell)
    assert not is_missing("0")


def test_names_of_tables(tmp_path):
    for name in ("a.csv", "a.tsv.gz", "a.parquet"):
        assert is_table(tmp_path / name)
    assert not is_table(tmp_path / "a.pt")
