from __future__ import annotations

import pytest

from eigenformer.data import DataError
from eigenformer.data.tables import read_table
from eigenformer.limits import Limits


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
    with pytest.raises(DataError, match="t.parquet, line 2: column 'day': "):
        read_table(path)
    fine = arrow.array([1], arrow.timestamp("ns"))  # finer than Python's
    parquet.write_table(arrow.table({"time": fine}), path)
    assert read_table(path).columns["time"] == ["1970-01-01 00:00:00.000000001"]


def test_a_column_of_parquet_whose_name_is_not_utf8(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"smiles": ["C"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"smiles", b"smil\xade"))
    with pytest.raises(DataError, match="t.parquet: not a Parquet file"):
        read_table(path)
