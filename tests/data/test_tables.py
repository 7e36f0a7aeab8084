from __future__ import annotations

import csv
import gzip
import time

import pytest

from eigenformer.data import DataError
from eigenformer.data.tables import is_table, read_table
from eigenformer.limits import Limits


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


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"t\.csv: the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"a,b\n", "a header, but no rows"),
        (b'a,b\n1,2\n3,"4\n5,6\n', r"t\.csv, line 3: a quote is not closed"),
        (b"a,a\n1,2\n", r"line 1: column 'a' appears twice"),
        (b"a\n1\n\xff\xfe\n", r"line 3: not UTF-8"),
        (b"\xff\xfea\x00\n\x001\x00", r"line 1: not UTF-8"),
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

    broken = bytearray(gzip.compress(bytes(range(256)) * 100))
    broken[30:60] = b"x" * 30
    (tmp_path / "t.csv.gz").write_bytes(broken)
    with pytest.raises(DataError, match="damaged gzip"):
        read_table(tmp_path / "t.csv.gz")


def test_rows_of_another_width_are_set_aside(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3\n,\n\n4,5,6,7\n8,9\n")
    table = read_table(path)
    assert table.columns == {"a": ["1", "8"], "b": ["2", "9"]}
    assert table.lines == [2, 7]
    assert [str(item.problem) for item in table.ragged] == [
        f"{path}, line 3: 1 cells, but the header has 2",
        f"{path}, line 6: 4 cells, but the header has 2",
    ]
    assert [item.row for item in table.ragged] == [{"a": "3"}, {"a": "4", "b": "5", "": "6,7"}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_any_delimiter(tmp_path, delimiter):
    path = tmp_path / "t.csv"
    path.write_text(f"a{delimiter}b\n1{delimiter}x\n")
    assert read_table(path).columns == {"a": ["1"], "b": ["x"]}


def test_columns_without_a_name_are_left_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",a,,b,\n0,1,,x,\n")  # as pandas and Excel write them
    assert read_table(path).columns == {"a": ["1"], "b": ["x"]}


def test_a_cell_of_any_length(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1," + "x" * 200_000 + "\n")
    limit = csv.field_size_limit()
    assert len(read_table(path).columns["b"][0]) == 200_000
    assert csv.field_size_limit() == limit


def test_a_missing_column_names_the_nearest(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("SMILES,target\nC,1\n")
    with pytest.raises(DataError, match=r"column 'Smiles': unknown; the nearest is 'SMILES'"):
        read_table(path).column("Smiles")


def test_names_of_tables(tmp_path):
    for name in ("a.csv", "a.tsv.gz", "a.parquet"):
        assert is_table(tmp_path / name)
    assert not is_table(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"columns": 1}, "columns: 2 exceeds the limit of 1 "),
        ({"cells": 3}, "cells: 4 exceeds the limit of 3 "),
        ({"cell_length": 2}, "line 3: the length of a cell exceeds the limit of 2 "),
        ({"text_bytes": 9}, "bytes of text: .* exceeds the limit of 9 "),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_limits(tmp_path, limit, message, packed):
    path, text = tmp_path / ("t.csv.gz" if packed else "t.csv"), b"a,b\n1,2\n3,444\n"
    path.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(DataError, match=f"{path.name}.*{message}.*--limits {next(iter(limit))}="):
        read_table(path, limits=Limits(**limit))


def test_a_gz_bomb_is_unpacked_no_further_than_allowed(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" * 10**6))
    with pytest.raises(
        DataError, match=r"t.csv.gz: unpacks from .* to more than the limit of 5,000"
    ):
        read_table(path, limits=Limits(unpacked_bytes=5000, unpacked_ratio=1, file_bytes=5000))


def test_very_many_columns_take_no_time(tmp_path):
    path, count = tmp_path / "t.csv", 50_000
    path.write_text(",".join(f"c{n}" for n in range(count)) + "\n" + ",".join(["1"] * count) + "\n")
    start = time.process_time()
    table = read_table(path)
    with pytest.raises(DataError, match="50000 in all"):
        table.column("none")
    assert time.process_time() - start < 5  # minutes if every name is compared with all others
