"""Plain tables: CSV and TSV, also gzipped, and Parquet (extra ``parquet``)."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

from eigenformer.data.errors import DataError, Problem
from eigenformer.nearest import unknown

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""Cells that hold nothing, whatever their case."""

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*_DELIMITERS, ".parquet")


@dataclass(frozen=True)
class Table:
    """Columns of text, and the line of the file each row is on."""

    file: str
    columns: dict[str, list[str]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str]:
        """A column by its name."""
        if name not in self.columns:
            raise DataError(Problem(self.file, unknown(f"column '{name}'", name, self.columns), 1))
        return self.columns[name]

    def row(self, index: int) -> dict[str, str]:
        """One row as it was read."""
        return {name: column[index] for name, column in self.columns.items()}


def is_table(path: Path) -> bool:
    """Whether a file's name says that it is a table."""
    return _suffix(path) in SUFFIXES


def is_missing(cell: str) -> bool:
    """Whether a cell holds nothing."""
    return cell.strip().lower() in MISSING


def read_table(path: str | Path) -> Table:
    """Reads a table with a header line; rows of another width are an error with their lines."""
    path = Path(path)
    suffix = _suffix(path)
    if suffix not in SUFFIXES:
        raise DataError(Problem(str(path), f"not a table: expected one of {', '.join(SUFFIXES)}"))
    if not path.is_file():
        raise DataError(Problem(str(path), "there is no such file"))
    try:
        return _read_parquet(path) if suffix == ".parquet" else _read_text(path)
    except UnicodeDecodeError as error:
        raise DataError(Problem(str(path), f"not UTF-8 text ({error.reason})")) from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise DataError(Problem(str(path), f"damaged gzip file ({error})")) from None


def _suffix(path: Path) -> str:
    path = Path(path.name.lower())
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _read_text(path: Path) -> Table:
    data = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    # Excel writes a byte-order mark, which is no part of the first column's name.
    text = data.decode("utf-8-sig")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_DELIMITERS[_suffix(path)])
    header = [name.strip() for name in next(reader, [])]
    if not any(header):
        raise DataError(Problem(str(path), "the file is empty"))
    duplicates = sorted({name for name in header if header.count(name) > 1})
    if duplicates:
        raise DataError(Problem(str(path), f"column '{duplicates[0]}' is there twice", 1))
    rows, lines, problems = [], [], []
    end = reader.line_num
    for row in reader:
        line, end = end + 1, reader.line_num  # a quoted cell may hold line breaks
        if not row:
            continue
        if len(row) != len(header):
            reason = f"{len(row)} cells, the header has {len(header)}"
            problems.append(Problem(str(path), reason, line))
        rows.append(row)
        lines.append(line)
    if problems:
        raise DataError(problems)
    if not rows:
        raise DataError(Problem(str(path), "a header, but no rows"))
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    return Table(str(path), columns, lines)


def _read_parquet(path: Path) -> Table:
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
    if not table.num_rows:
        raise DataError(Problem(str(path), "the file is empty"))
    columns = {
        name: ["" if cell is None else str(cell) for cell in table.column(name).to_pylist()]
        for name in table.column_names
    }
    # Numbered as in a text file: the header is line 1.
    return Table(str(path), columns, list(range(2, table.num_rows + 2)))
