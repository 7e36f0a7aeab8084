from __future__ import annotations

import csv
import gzip
import time

import pytest

from eigenformer.data import DataError
from eigenformer.data.tables import (
    is_missing,
    is_table,
    is_whole,
    read_number,
    read_table,
    read_whole,
)
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


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"smiles": ["C", None], "y": [1.5, 2.5]}), path)
    table = read_table(path)
    assert table.columns == {"smiles": ["C", ""], "y": ["1.5", "2.5"]}
    assert table.lines == [2, 3]
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"t\.parquet: not a Parquet file"):
        read_table(path)
    parquet.write_table(arrow.table({"smiles": arrow.array([], "string")}), path)
    with pytest.raises(DataError, match="a header, but no rows"):
        read_table(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"t\.csv: the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"a,b\n", "a header, but no rows"),
        (b'a,b\n1,2\n3,"4\n5,6\n', r"t\.csv, line 3: a quote is not closed"),
        (b"a,a\n1,2\n", r"line 1: column 'a' appears twice"),
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


@pytest.mark.parametrize(
    ("cell", "number"), [("1.5", 1.5), (" -2e3 ", -2000), ("True", 1), ("false", 0), ("3e38", 3e38)]
)
def test_numbers(cell, number):
    assert read_number(cell) == number


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("x", "'x' is not a number"),
        ("0,5", r"'0,5' is not a number \(a decimal point is expected\)"),
        ("1_000", "not a number"),
        ("nan", "not a number"),
        ("-inf", "not finite"),
        ("1e39", "exceeds single precision"),
        ("1" * 400, "not finite"),
    ],
)
def test_what_is_no_number(cell, message):
    with pytest.raises(DataError, match=message):
        read_number(cell)


def test_whole_numbers():
    assert read_whole(" +9007199254740993 ") == 9007199254740993
    assert read_whole(str(-(2**63))) == -(2**63)
    assert read_whole("TRUE") == 1
    assert all(map(is_whole, ("-3", "12", "False")))
    assert not any(map(is_whole, ("1.0", "²", "", "+-1 0")))
    for cell in (str(2**63), "9" * 5000):
        with pytest.raises(DataError, match="does not fit in a 64-bit integer"):
            read_whole(cell)


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


def test_limits_of_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    path = tmp_path / "t.parquet"
    repeated = arrow.array(["u", "v", "u"]).dictionary_encode()
    parquet.write_table(
        arrow.table({"a": ["x", None, "x"], "b": [1, 2, None], "c": repeated}), path
    )
    assert read_table(path).columns == {
        "a": ["x", "", "x"],
        "b": ["1", "2", ""],
        "c": ["u", "v", "u"],
    }
    for limit in ("columns", "cells"):
        with pytest.raises(DataError, match=f"t.parquet: {limit}: . exceeds"):
            read_table(path, limits=Limits(**{limit: 2}))
    with pytest.raises(DataError, match=r"t.parquet: bytes of text: .* --limits text_bytes"):
        read_table(path, limits=Limits(text_bytes=3))
    parquet.write_table(arrow.table({"day": arrow.array([10**8], arrow.date32())}), path)
    with pytest.raises(DataError, match="t.parquet: column 'day': "):
        read_table(path)


def test_a_column_of_parquet_whose_name_is_not_utf8(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"smiles": ["C"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"smiles", b"smil\xade"))
    with pytest.raises(DataError, match="t.parquet: not a Parquet file"):
        read_table(path)
