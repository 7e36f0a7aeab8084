"""Plain tables: CSV and TSV, also gzipped, and Parquet (extra ``parquet``)."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.nearest import unknown

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The texts of missing cells, in lower case. Case does not matter."""

SUFFIXES = (".csv", ".tsv", ".parquet")
_WORDS = {"true": 1.0, "false": 0.0}
# A longer line is not a row of a table; it is read only up to here.
_CELLS_PER_LINE = 16
_LONGER = "raise it with  --limits cell_length=NUMBER"
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


@dataclass(frozen=True)
class RowStream:
    """A table that is read row by row, in memory that does not grow with its length.

    Args:
        header: The names of the columns.
        rows: The line on which each row begins, and its unchanged cells, of any width.
        position: Returns the number of bytes of text read so far.
        count: The number of rows, if the file says it.
    """

    header: list[str]
    rows: Iterator[tuple[int, list[str]]]
    position: Callable[[], int]
    count: int | None = None


def read_rows(
    path: str | Path, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns the header, all rows unchanged, of any width, and the line on which each begins."""
    rows, lines, cells = [], [], 0
    with open_rows(path, limits) as stream, placed(path):
        _check_unpacked(Path(path), limits)  # before any memory is taken
        limits.check("cells", (stream.count or 0) * len(stream.header))
        for line, row in stream.rows:
            rows.append(row)
            lines.append(line)
            cells += len(row) or 1
            limits.check("cells", cells)
            limits.check("text_bytes", stream.position(), "bytes of text")
    return stream.header, rows, lines


@contextmanager
def open_rows(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[RowStream]:
    """Opens a table to read its rows one after the other."""
    path = Path(path)
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(Problem(str(path), f"not a table: expected one of {', '.join(SUFFIXES)}"))
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file"))
    if suffix == ".parquet":
        yield _open_parquet(path, limits)
        return
    with placed(path), _open_bytes(path) as binary:
        # Excel writes a byte-order mark, which is not part of the first column's name.
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        yield _open_text(path, text, binary.tell, "\t" if suffix == ".tsv" else None, limits)


def count_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> int:
    """Returns how many lines a text has, as far as it can be unpacked within the limits."""
    path, lines, count = Path(path), 0, 0
    most = limits.unpacked(path.stat().st_size) if path.suffix.lower() == ".gz" else None
    with suppress(gzip.BadGzipFile, zlib.error, EOFError), _open_bytes(path) as binary:
        while (most is None or count < most) and (part := binary.read(1 << 20)):
            lines += part.count(b"\n")
            count += len(part)
    return lines


def _check_unpacked(path: Path, limits: Limits) -> None:
    """Raises an error if a text has too many bytes. Unpacks no more than the limits allow."""
    if path.suffix.lower() != ".gz":
        if _suffix(path) != ".parquet":
            limits.check("text_bytes", path.stat().st_size, "bytes of text")
        return
    count, size = 0, path.stat().st_size
    with suppress(gzip.BadGzipFile, zlib.error, EOFError), _open_bytes(path) as binary:
        for part in iter(lambda: binary.read(1 << 20), b""):
            count += len(part)
            limits.check("text_bytes", count, "bytes of text")
            limits.check_unpacked(count, size)


def _open_bytes(path: Path) -> BinaryIO:
    opened: Any = gzip.GzipFile if path.suffix.lower() == ".gz" else open
    return cast(BinaryIO, opened(path, "rb"))


def _suffix(path: Path) -> str:
    path = Path(path.name.lower())
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _open_text(
    path: Path,
    text: TextIO,
    position: Callable[[], int],
    delimiter: str | None,
    limits: Limits,
) -> RowStream:
    lines = _read_lines(path, text, position, limits)
    blank = []
    for first in lines:
        blank.append(first)
        if first.strip("\r\n"):
            break
    if delimiter is None:  # many programs write CSV files with semicolons or tabs
        start = blank[-1] if blank else ""
        delimiter = max(",;\t", key=start.count)
    reader = csv.reader(itertools.chain(blank, lines), delimiter=delimiter, strict=True)
    read = _parse_rows(path, reader, limits)
    header: list[str] = []
    for _, row in read:
        if any(row):
            header = [name.strip() for name in row]
            break
    limits.check("columns", len(header))
    if not any(header):
        raise DataError(Problem(str(path), "the file is empty"))
    return RowStream(header, read, position)


def _read_lines(
    path: Path, text: TextIO, position: Callable[[], int], limits: Limits
) -> Iterator[str]:
    """Yields the lines of a text. Neither a line nor a packed file may be too long."""
    size, longest = path.stat().st_size, _CELLS_PER_LINE * limits.cell_length
    packed = path.suffix.lower() == ".gz"
    try:
        while line := text.readline(longest + 1):
            if len(line) > longest:
                reason = f"the length of a line exceeds {longest:,} characters"
                raise DataError(Problem(str(path), f"{reason}; {_LONGER}"))
            if packed:
                limits.check_unpacked(position(), size)
            yield line
    except UnicodeDecodeError as error:
        raise DataError(
            Problem(str(path), f"not UTF-8 text ({error.reason}): save it as UTF-8")
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(Problem(str(path), f"damaged gzip file ({error})")) from None


def _parse_rows(path: Path, reader: Any, limits: Limits) -> Iterator[tuple[int, list[str]]]:
    """Yields the line on which each row begins, and its cells."""
    while True:
        line = reader.line_num + 1
        try:
            with _cells_of(limits.cell_length):
                row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = f"a quote is not closed, or closed too early ({error})"
            if "field limit" in str(error):
                reason = f"the length of a cell exceeds {limits.advice('cell_length')}"
            raise DataError(Problem(str(path), reason, line)) from None
        yield line, row


@contextmanager
def _cells_of(length: int) -> Iterator[None]:
    """Sets the limit on the length of a cell, which is a setting of the whole process."""
    before = csv.field_size_limit(length)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _arrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet needs pyarrow: install it with  pip install 'eigenformer[parquet]'"
        ) from None
    return arrow, parquet


def _open_parquet(path: Path, limits: Limits) -> RowStream:
    _, parquet = _arrow(path)
    with _told(path), placed(path), parquet.ParquetFile(path) as file:
        _check_size(file.metadata, path, limits)
        names = file.schema_arrow.names
        kinds = zip(names, file.schema_arrow.types, strict=True)
        texts, count = [name for name, kind in kinds if _is_text(kind)], file.metadata.num_rows
    if not names:
        raise DataError(Problem(str(path), "the file is empty"))
    length = [0]
    rows = _parquet_rows(path, names, texts, length, limits)
    return RowStream(names, rows, lambda: length[0], count)


def _parquet_rows(
    path: Path, names: list[str], texts: list[str], length: list[int], limits: Limits
) -> Iterator[tuple[int, list[str]]]:
    """Yields rows, numbered as in a text file, where the header is line 1."""
    _, parquet = _arrow(path)
    line = 2
    with _told(path), parquet.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=1024):
            batch.validate(full=True)  # pyarrow reads places outside a dictionary as they are
            columns = [_cells(*column, path) for column in zip(names, batch.columns, strict=True)]
            for row in zip(*columns, strict=True):
                longest = max(map(len, row))
                if longest > limits.cell_length:
                    reason = f"the length of a cell exceeds {limits.advice('cell_length')}"
                    raise DataError(Problem(str(path), reason, line))
                length[0] += sum(map(len, row))
                yield line, list(row)
                line += 1


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns the errors of Parquet files into one sentence."""
    arrow, _ = _arrow(path)
    try:
        yield
    except DataError:
        raise
    except (arrow.ArrowException, OSError, MemoryError, ValueError, OverflowError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise DataError(Problem(str(path), f"not a Parquet file ({reason})")) from None


def _check_size(metadata: Any, path: Path, limits: Limits) -> None:
    """Raises an error if a Parquet file says that it is too large; reads only its footer."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    limits.check("columns", metadata.num_columns)
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
