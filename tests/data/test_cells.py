from __future__ import annotations

import pytest

from eigenformer.data import DataError
from eigenformer.data.cells import is_missing, is_whole, read_number, read_whole


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


@pytest.mark.parametrize("cell", ["", " ", "NaN", "NA", "n/a", "null", "None", "?"])
def test_missing_cells(cell):
    assert is_missing(cell)
    assert not is_missing("0")
