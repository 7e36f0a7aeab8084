"""Plain tables: CSV and TSV, also gzipped, and Parquet (extra ``parquet``)."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.data.parquet_rows import open_parquet
from eigenformer.data.rows import BadRow, RowStream
from eigenformer.data.text_rows import open_bytes, open_text
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.nearest import unknown

SUFFIXES = (".csv", ".tsv", ".parquet")


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
        ragged: Rows that cannot be read, or whose width differs from the header's. They are not
            in the columns.
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


def read_table(
    path: str | Path,
    rows_needed: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    keep_bad: bool = False,
) -> Table:
    """Reads a table with a header line. Skips empty rows and columns without a name.

    Args:
        path: The table.
        rows_needed: Whether a table without rows is an error.
        limits: How large the table may be.
        keep_bad: Whether rows that cannot be read are among those of another width, instead of
            an error.
    """
    header, cells, lines = read_rows(path, limits, keep_bad)
    for name, count in Counter(header).items():
        if name and count > 1:
            raise DataError(Problem(str(path), f"column '{name}' appears twice", 1))
    kept, kept_lines, ragged = [], [], []
    for row, line in zip(cells, lines, strict=True):
        if not any(map(str.strip, row)) and not isinstance(row, BadRow):
            continue
        if len(row) == len(header) and not isinstance(row, BadRow):
            kept.append(row)
            kept_lines.append(line)
        else:
            reason = f"{len(row)} cells, but the header has {len(header)}"
            if isinstance(row, BadRow):
                reason = row.reason
            extra = {"": ",".join(row[len(header) :])} if len(row) > len(header) else {}
            told = {**dict(zip(header, row, strict=False)), **extra}
            ragged.append(Rejected(Problem(str(path), reason, line), told))
    if rows_needed and not kept and not ragged:
        raise DataError(Problem(str(path), "has a header, but no rows"))
    columns = {name: [row[place] for row in kept] for place, name in enumerate(header) if name}
    return Table(str(path), columns, kept_lines, tuple(ragged))


def read_rows(
    path: str | Path, limits: Limits = DEFAULT_LIMITS, keep_bad: bool = False
) -> tuple[list[str], list[list[str]], list[int]]:
    """Returns the header, all rows unchanged, of any width, and the line on which each begins."""
    rows, lines, cells = [], [], 0
    with open_rows(path, limits, keep_bad) as stream, placed(path):
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
    path: str | Path, limits: Limits = DEFAULT_LIMITS, keep_bad: bool = False
) -> Iterator[RowStream]:
    """Opens a table to read its rows one after the other.

    With ``keep_bad``, a row that cannot be read is a :class:`BadRow`, not an error.
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(Problem(str(path), f"not a table: expected one of {', '.join(SUFFIXES)}"))
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file"))
    if suffix == ".parquet":
        yield open_parquet(path, limits, keep_bad)
        return
    with open_text(path, "\t" if suffix == ".tsv" else None, limits, keep_bad) as stream:
        yield stream


def _check_unpacked(path: Path, limits: Limits) -> None:
    """Raises an error if a text has too many bytes. Unpacks no more than the limits allow."""
    if path.suffix.lower() != ".gz":
        if _suffix(path) != ".parquet":
            limits.check("text_bytes", path.stat().st_size, "bytes of text")
        return
    count, size = 0, path.stat().st_size
    with suppress(gzip.BadGzipFile, zlib.error, EOFError), open_bytes(path) as binary:
        for part in iter(lambda: binary.read(1 << 20), b""):
            count += len(part)
            limits.check("text_bytes", count, "bytes of text")
            limits.check_unpacked(count, size)


def _suffix(path: Path) -> str:
    path = Path(path.name.lower())
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
