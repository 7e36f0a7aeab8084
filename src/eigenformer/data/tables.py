"""Plain tables: CSV and TSV, also gzipped, and Parquet (extra ``parquet``)."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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

    def subset(self, places: Sequence[int]) -> Table:
        """Returns some rows of the table, without those of another width."""
        columns = {name: [cells[i] for i in places] for name, cells in self.columns.items()}
        return Table(self.file, columns, [self.lines[i] for i in places])

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
    path: str | Path,
    rows_needed: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    keep_long: bool = False,
) -> Table:
    """Reads a table with a header line. Skips empty rows and columns without a name.

    Args:
        path: The table.
        rows_needed: Whether a table without rows is an error.
        limits: How large the table may be.
        keep_long: Whether rows with a cell that is too long are among those of another width,
            instead of an error.
    """
    header, cells, lines = read_rows(path, limits, keep_long)
    for name, count in Counter(header).items():
        if name and count > 1:
            raise DataError(Problem(str(path), f"column '{name}' appears twice", 1))
    kept, kept_lines, ragged = [], [], []
    for row, line in zip(cells, lines, strict=True):
        if not any(map(str.strip, row)):
            continue
        if len(row) == len(header) and not isinstance(row, LongRow):
            kept.append(row)
            kept_lines.append(line)
        else:
            reason = f"{len(row)} cells, but the header has {len(header)}"
            if isinstance(row, LongRow):
                reason = too_long(limits)
            extra = {"": ",".join(row[len(header) :])} if len(row) > len(header) else {}
            told = {**dict(zip(header, row, strict=False)), **extra}
            ragged.append(Rejected(Problem(str(path), reason, line), told))
    if rows_needed and not kept and not ragged:
        raise DataError(Problem(str(path), "has a header, but no rows"))
    columns = {name: [row[place] for row in kept] for place, name in enumerate(header) if name}
    return Table(str(path), columns, kept_lines, tuple(ragged))


class LongRow(list[str]):
    """A row with a cell beyond the limit, which is left empty."""

    @classmethod
    def of(cls, cells: Iterable[str], limits: Limits) -> LongRow:
        """Empties the cells that are too long."""
        return cls(cell if len(cell) <= limits.cell_length else "" for cell in cells)


def too_long(limits: Limits) -> str:
    """Returns what is wrong with a row that has a cell beyond the limit."""
    return f"the length of a cell exceeds {limits.advice('cell_length')}"


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
    path: str | Path, limits: Limits = DEFAULT_LIMITS, keep_long: bool = False
) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns the header, all rows unchanged, of any width, and the line on which each begins."""
    rows, lines, cells = [], [], 0
    with open_rows(path, limits, keep_long) as stream, placed(path):
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
def open_rows(
    path: str | Path, limits: Limits = DEFAULT_LIMITS, keep_long: bool = False
) -> Iterator[RowStream]:
    """Opens a table to read its rows one after the other.

    With ``keep_long``, a row with a cell that is too long is a :class:`LongRow`, not an error.
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(Problem(str(path), f"not a table: expected one of {', '.join(SUFFIXES)}"))
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file"))
    if suffix == ".parquet":
        yield _open_parquet(path, limits, keep_long)
        return
    with placed(path), _open_bytes(path) as binary:
        # Excel writes a byte-order mark, which is not part of the first column's name.
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        delimiter = "\t" if suffix == ".tsv" else None
        yield _open_text(path, text, binary.tell, delimiter, limits, keep_long)


def text_rows(
    name: str, data: bytes, limits: Limits = DEFAULT_LIMITS, keep_long: bool = False
) -> RowStream:
    """Reads a table in memory, like :func:`open_rows`. Errors call it ``name``."""
    limits.check("text_bytes", len(data), "bytes of text")
    binary = io.BytesIO(data)
    text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
    return _open_text(Path(name), text, binary.tell, None, limits, keep_long)


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
    keep_long: bool,
) -> RowStream:
    lines = _read_lines(path, text, position, limits, keep_long)
    blank = []
    for first in lines:
        blank.append(first)
        if first.strip("\r\n"):
            break
    if delimiter is None:  # many programs write CSV files with semicolons or tabs
        start = blank[-1] if blank else ""
        delimiter = max(",;\t", key=start.count)
    read = _parse_rows(path, itertools.chain(blank, lines), delimiter, limits, keep_long)
    header: list[str] = []
    for line, row in read:
        if isinstance(row, LongRow):
            raise DataError(Problem(str(path), too_long(limits), line))
        if any(row):
            header = [name.strip() for name in row]
            break
    limits.check("columns", len(header))
    if not any(header):
        raise DataError(Problem(str(path), "the file is empty"))
    return RowStream(header, read, position)


def _read_lines(
    path: Path, text: TextIO, position: Callable[[], int], limits: Limits, keep_long: bool
) -> Iterator[str]:
    """Yields the lines of a text. Neither a line nor a packed file may be too long.

    With ``keep_long``, yields the beginning of a line that is too long.
    """
    longest = _CELLS_PER_LINE * limits.cell_length
    packed = path.suffix.lower() == ".gz"
    size = path.stat().st_size if packed else 0
    try:
        while line := text.readline(longest + 1):
            if len(line) > longest:
                if not keep_long or '"' in line:  # where a quoted cell ends is not known
                    reason = f"the length of a line exceeds {longest:,} characters"
                    raise DataError(Problem(str(path), f"{reason}; {_LONGER}"))
                rest = line
                while rest and not rest.endswith("\n"):
                    if packed:
                        limits.check_unpacked(position(), size)
                    rest = text.readline(longest)
            if packed:
                limits.check_unpacked(position(), size)
            yield line
    except UnicodeDecodeError as error:
        raise DataError(
            Problem(str(path), f"not UTF-8 text ({error.reason}): save it as UTF-8")
        ) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(Problem(str(path), f"damaged gzip file ({error})")) from None


def _parse_rows(
    path: Path, lines: Iterator[str], delimiter: str, limits: Limits, keep_long: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yields the line on which each row begins, and its cells."""
    last = ""

    def remembered() -> Iterator[str]:
        nonlocal last
        for text in lines:
            last = text
            yield text

    reader = csv.reader(remembered(), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            with _cells_of(limits.cell_length):
                row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason, long = f"a quote is not closed, or closed too early ({error})", False
            if "field limit" in str(error):
                reason, long = too_long(limits), True
            # A row goes on beyond its line if a quote is open. Then, its end is not known.
            if not keep_long or not long or reader.line_num > line or last.count('"') % 2:
                raise DataError(Problem(str(path), reason, line)) from None
            row = _long_row(last, delimiter, limits)
        yield line, row


def _long_row(line: str, delimiter: str, limits: Limits) -> LongRow:
    with _cells_of(len(line)):
        try:
            return LongRow.of(next(csv.reader([line], delimiter=delimiter)), limits)
        except csv.Error:
            return LongRow()


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


def _open_parquet(path: Path, limits: Limits, keep_long: bool) -> RowStream:
    _, parquet = _arrow(path)
    with _told(path), placed(path), parquet.ParquetFile(path) as file:
        _check_size(file.metadata, path, limits)
        names = file.schema_arrow.names
        kinds = zip(names, file.schema_arrow.types, strict=True)
        texts, count = [name for name, kind in kinds if _is_text(kind)], file.metadata.num_rows
    if not names:
        raise DataError(Problem(str(path), "the file is empty"))
    length = [0]
    rows = _parquet_rows(path, names, texts, length, limits, keep_long)
    return RowStream(names, rows, lambda: length[0], count)


def _parquet_rows(
    path: Path,
    names: list[str],
    texts: list[str],
    length: list[int],
    limits: Limits,
    keep_long: bool,
) -> Iterator[tuple[int, list[str]]]:
    """Yields rows, numbered as in a text file, where the header is line 1."""
    _, parquet = _arrow(path)
    line = 2
    with _told(path), parquet.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=1024):
            batch.validate(full=True)  # pyarrow reads places outside a dictionary as they are
            columns = [_cells(*column, path) for column in zip(names, batch.columns, strict=True)]
            for row in zip(*columns, strict=True):
                long = max(map(len, row)) > limits.cell_length
                if long and not keep_long:
                    raise DataError(Problem(str(path), too_long(limits), line))
                length[0] += sum(map(len, row))
                yield line, LongRow.of(row, limits) if long else list(row)
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
