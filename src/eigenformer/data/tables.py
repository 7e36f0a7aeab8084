"""Plain tables: CSV and TSV, also gzipped, and Parquet (extra ``parquet``)."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.limits import DEFAULT_LIMITS, Limits
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


def read_table(
    path: str | Path, rows_needed: bool = True, limits: Limits = DEFAULT_LIMITS
) -> Table:
    """Reads a table with a header line. Skips empty rows and columns without a name."""
    header, cells, lines = read_rows(path, limits)
    for name, count in Counter(header).items():
        if name and count > 1:
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


def read_rows(
    path: str | Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns the header, all rows unchanged, of any width, and the line on which each begins."""
    path = Path(path)
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(Problem(str(path), f"not a table: expected one of {', '.join(SUFFIXES)}"))
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file"))
    if suffix == ".parquet":
        return _read_parquet(path, limits)
    try:
        # Excel writes a byte-order mark, which is not part of the first column's name.
        text = _read_bytes(path, limits).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            Problem(str(path), f"not UTF-8 text ({error.reason}): save it as UTF-8")
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(Problem(str(path), f"damaged gzip file ({error})")) from None
    return _read_text(path, text, "\t" if suffix == ".tsv" else None, limits)


def _read_bytes(path: Path, limits: Limits) -> bytes:
    """Returns the text of a file, unpacked. No more is unpacked than the limits allow."""
    size = path.stat().st_size
    with placed(path):
        if path.suffix.lower() != ".gz":
            limits.check("text_bytes", size, "bytes of text")
            return path.read_bytes()
        with gzip.open(path) as stream:
            data = stream.read(min(limits.unpacked(size), limits.text_bytes) + 1)
        limits.check("text_bytes", len(data), "bytes of text")
        limits.check_unpacked(len(data), size)
        return data


def _suffix(path: Path) -> str:
    path = Path(path.name.lower())
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _read_text(
    path: Path, text: str, delimiter: str | None, limits: Limits
) -> tuple[list[str], list[list[str]], list[int]]:
    if delimiter is None:  # many programs write CSV files with semicolons or tabs
        start = io.StringIO(text.lstrip("\r\n")).readline()
        delimiter = max(",;\t", key=start.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, lines, end, cells = [], [], 0, 0
    try:
        with _cells_of(limits.cell_length), placed(path):
            header = [name.strip() for name in next(filter(any, reader), [])]
            limits.check("columns", len(header))
            end = reader.line_num
            for row in reader:
                rows.append(row)
                lines.append(end + 1)
                end = reader.line_num  # a quoted cell may hold line breaks
                cells += len(row) or 1
                limits.check("cells", cells)
    except csv.Error as error:
        reason = f"a quote is not closed, or closed too early ({error})"
        if "field limit" in str(error):
            reason = f"the length of a cell exceeds {limits.advice('cell_length')}"
        raise DataError(Problem(str(path), reason, end + 1)) from None
    if not any(header):
        raise DataError(Problem(str(path), "the file is empty"))
    return header, rows, lines


@contextmanager
def _cells_of(length: int) -> Iterator[None]:
    """Sets the limit on the length of a cell, which is a setting of the whole process."""
    before = csv.field_size_limit(length)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read_parquet(path: Path, limits: Limits) -> tuple[list[str], list[list[str]], list[int]]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet needs pyarrow: install it with  pip install 'eigenformer[parquet]'"
        ) from None
    try:
        with placed(path), parquet.ParquetFile(path) as file:
            _check_size(file.metadata, path, limits)
            names = file.schema_arrow.names
            texts = [
                n for n, kind in zip(names, file.schema_arrow.types, strict=True) if _is_text(kind)
            ]
        with placed(path), parquet.ParquetFile(path, read_dictionary=texts) as file:
            rows, length = [], 0
            for batch in file.iter_batches(batch_size=1024):
                columns = [
                    _cells(*column, path) for column in zip(names, batch.columns, strict=True)
                ]
                rows += [list(row) for row in zip(*columns, strict=True)]
                length += sum(len(cell) for column in columns for cell in column)
                limits.check("text_bytes", length, "characters")
    except DataError:
        raise
    except (arrow.ArrowException, OSError, MemoryError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise DataError(Problem(str(path), f"not a Parquet file ({reason})")) from None
    if not names:
        raise DataError(Problem(str(path), "the file is empty"))
    # Lines are numbered as in a text file: the header is line 1.
    return names, rows, list(range(2, len(rows) + 2))


def _check_size(metadata: Any, path: Path, limits: Limits) -> None:
    """Raises an error if a Parquet file says that it is too large; reads only its footer."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    limits.check("columns", metadata.num_columns)
    limits.check("cells", metadata.num_rows * max(metadata.num_columns, 1))
    limits.check_unpacked(sum(group.total_byte_size for group in groups), path.stat().st_size)


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string")


def _cells(name: str, column: Any, path: Path) -> Iterable[str]:
    """Returns a column as texts. Equal texts that are stored once are one object."""
    try:
        if hasattr(column, "dictionary"):
            texts = [*map(_as_text, column.dictionary.to_pylist()), ""]
            return [texts[-1 if place is None else place] for place in column.indices.to_pylist()]
        return list(map(_as_text, column.to_pylist()))
    except (ValueError, OverflowError) as error:  # for example, a date after the year 9999
        raise DataError(Problem(str(path), f"column '{name}': {error}")) from None


def _as_text(cell: object) -> str:
    return "" if cell is None else str(cell)
