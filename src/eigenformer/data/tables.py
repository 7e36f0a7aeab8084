"""Plain tables: CSV and TSV, also gzipped, and Parquet (extra ``parquet``)."""

from __future__ import annotations

import csv
import gzip
import io
import math
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eigenformer.data.errors import DataError, Problem
from eigenformer.nearest import unknown

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The texts of missing cells, in lower case. Case does not matter."""

SUFFIXES = (".csv", ".tsv", ".parquet")
_WORDS = {"true": 1.0, "false": 0.0}
_LARGEST = 3.4028234663852886e38  # the largest number in single precision


@dataclass(frozen=True)
class Rejected:
    """A row that gave no graph: its place, the reason, and its cells."""

    problem: Problem
    row: dict[str, str]


@dataclass(frozen=True)
class Table:
    """Columns of text, with the line number of each row.

    Args:
        file: The file that the table was read from.
        columns: The cells of each column, by its name.
        lines: The line on which each row begins.
        ragged: Rows whose width differs from the header's. They are not in the columns.
    """

    file: str
    columns: dict[str, list[str]]
    lines: list[int]
    ragged: tuple[Rejected, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str]:
        """Returns the column with this name."""
        if name not in self.columns:
            raise DataError(Problem(self.file, unknown(f"column '{name}'", name, self.columns), 1))
        return self.columns[name]

    def row(self, index: int) -> dict[str, str]:
        """Returns one row as it was read."""
        return {name: column[index] for name, column in self.columns.items()}


def is_table(path: Path) -> bool:
    """Returns whether a file is a table, judging by its name."""
    return _suffix(path) in SUFFIXES


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


def read_table(path: str | Path, rows_needed: bool = True) -> Table:
    """Reads a table with a header line. Skips empty rows and columns without a name."""
    header, cells, lines = read_rows(path)
    for name in header:
        if name and header.count(name) > 1:
            raise DataError(Problem(str(path), f"column '{name}' appears twice", 1))
    kept, kept_lines, ragged = [], [], []
    for row, line in zip(cells, lines, strict=True):
        if not any(map(str.strip, row)):
            continue
        if len(row) == len(header):
            kept.append(row)
            kept_lines.append(line)
        else:
            reason = f"{len(row)} cells, but the header has {len(header)}"
            extra = {"": ",".join(row[len(header) :])} if len(row) > len(header) else {}
            told = {**dict(zip(header, row, strict=False)), **extra}
            ragged.append(Rejected(Problem(str(path), reason, line), told))
    if rows_needed and not kept and not ragged:
        raise DataError(Problem(str(path), "has a header, but no rows"))
    columns = {name: [row[place] for row in kept] for place, name in enumerate(header) if name}
    return Table(str(path), columns, kept_lines, tuple(ragged))


def read_rows(path: str | Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns the header, all rows unchanged, of any width, and the line on which each begins."""
    path = Path(path)
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(Problem(str(path), f"not a table: expected one of {', '.join(SUFFIXES)}"))
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file"))
    if suffix == ".parquet":
        return _read_parquet(path)
    try:
        data = path.read_bytes()
        # Excel writes a byte-order mark, which is not part of the first column's name.
        text = (gzip.decompress(data) if path.suffix.lower() == ".gz" else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            Problem(str(path), f"not UTF-8 text ({error.reason}): save it as UTF-8")
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(Problem(str(path), f"damaged gzip file ({error})")) from None
    return _read_text(path, text, "\t" if suffix == ".tsv" else None)


def _suffix(path: Path) -> str:
    path = Path(path.name.lower())
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _read_text(
    path: Path, text: str, delimiter: str | None
) -> tuple[list[str], list[list[str]], list[int]]:
    if delimiter is None:  # many programs write CSV files with semicolons or tabs
        start = text.lstrip("\r\n").splitlines()[:1]
        delimiter = max(",;\t", key=start[0].count) if start else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines, end = [], [], 0
    try:
        with _cells_of_any_length():
            header = [name.strip() for name in next(filter(any, reader), [])]
            end = reader.line_num
            for row in reader:
                rows.append(row)
                lines.append(end + 1)
                end = reader.line_num  # a quoted cell may hold line breaks
    except csv.Error as error:
        reason = f"a quote is not closed, or closed too early ({error})"
        raise DataError(Problem(str(path), reason, end + 1)) from None
    if not any(header):
        raise DataError(Problem(str(path), "the file is empty"))
    return header, rows, lines


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """Lifts the limit on the length of a cell, which is a setting of the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read_parquet(path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet needs pyarrow: install it with  pip install 'eigenformer[parquet]'"
        ) from None
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError) as error:
        raise DataError(Problem(str(path), f"not a Parquet file ({error})")) from None
    if not table.column_names:
        raise DataError(Problem(str(path), "the file is empty"))
    columns = [map(_as_text, column.to_pylist()) for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    # Lines are numbered as in a text file: the header is line 1.
    return table.column_names, rows, list(range(2, table.num_rows + 2))


def _as_text(cell: object) -> str:
    return "" if cell is None else str(cell)
