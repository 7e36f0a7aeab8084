"""Cells of tables: missing values, numbers and whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from eigenformer.data.errors import DataError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The texts of missing cells, in lower case. Case does not matter."""

_WORDS = {"true": 1.0, "false": 0.0}
_LARGEST = 3.4028234663852886e38  # the largest number in single precision


@contextmanager
def named(column: str) -> Iterator[None]:
    """Adds the name of the column to an error."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{column}: {error}") from None


def is_missing(cell: str) -> bool:
    """Returns whether a cell has no value."""
    return cell.strip().lower() in MISSING


def parse_number(cell: str) -> float | None:
    """Returns the number in a cell, of any size, or None. ``true`` is 1 and ``false`` is 0."""
    text = cell.strip().lower()
    try:
        return _WORDS[text] if text in _WORDS else float(text.replace("_", "?"))
    except ValueError:
        return None


def read_number(cell: str) -> float:
    """Returns the number in a cell. Raises an error if it is invalid or beyond single precision."""
    value = parse_number(cell)
    if value is None:
        hint = " (a decimal point is expected)" if "," in cell else ""
        raise DataError(f"'{cell}' is not a number{hint}")
    if not math.isfinite(value):
        raise DataError(f"'{cell}' is not {'a number' if math.isnan(value) else 'finite'}")
    if abs(value) > _LARGEST:
        raise DataError(f"'{cell}' exceeds single precision, at most 3.4e38")
    return value


def is_lost_in_single_precision(values: np.ndarray) -> bool:
    """Returns whether different numbers are all equal in single precision."""
    known = values[np.isfinite(values)]
    return len(known) > 1 and np.ptp(known) > 0 and not np.ptp(known.astype(np.float32))


def read_weight(cell: str) -> float:
    """Returns the weight in a cell. Raises an error if it is not a number, or negative."""
    value = read_number(cell)
    if value < 0:
        raise DataError(f"'{cell}' is negative, but a weight is not")
    return value


def is_whole(cell: str) -> bool:
    """Returns whether a cell holds a whole number, ``true`` or ``false``."""
    text = cell.strip()
    return text.lower() in _WORDS or text.removeprefix("-").removeprefix("+").isdecimal()


def read_whole(cell: str) -> int:
    """Returns the exact whole number in a cell."""
    text = cell.strip().lower()
    # Longer texts are not parsed at all.
    value = int(_WORDS[text]) if text in _WORDS else int(text) if len(text) < 30 else 2**63
    if not -(2**63) <= value < 2**63:
        raise DataError(f"'{cell}' does not fit in a 64-bit integer")
    return value
