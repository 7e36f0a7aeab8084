"""Rows of CSV and TSV files, also gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.data.rows import BadRow, RowStream, too_long
from eigenformer.limits import DEFAULT_LIMITS, Limits

# A longer line is not a row of a table; it is read only up to here.
_CELLS_PER_LINE = 16
_LONGER = "raise it with  --limits cell_length=NUMBER"
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@contextmanager
def open_text(
    path: Path, delimiter: str | None, limits: Limits, keep_bad: bool
) -> Iterator[RowStream]:
    """Opens a CSV file to read its rows.

    Args:
        path: The file.
        delimiter: What separates cells; by default, what the first line has most often.
        limits: How long cells and lines may be.
        keep_bad: Whether a row that cannot be read is a :class:`BadRow`, not an error.
    """
    with placed(path), open_bytes(path) as binary:
        # Excel writes a byte-order mark, which is not part of the first column's name.
        text = io.TextIOWrapper(binary, "utf-8-sig", "surrogateescape", newline="")
        yield _open_text(path, text, binary.tell, delimiter, limits, keep_bad)


def rows_in_memory(
    name: str, data: bytes, limits: Limits = DEFAULT_LIMITS, keep_bad: bool = False
) -> RowStream:
    """Reads a table in memory, as :func:`open_text` reads a file. Errors call it ``name``."""
    limits.check("text_bytes", len(data), "bytes of text")
    binary = io.BytesIO(data)
    text = io.TextIOWrapper(binary, "utf-8-sig", "surrogateescape", newline="")
    return _open_text(Path(name), text, binary.tell, None, limits, keep_bad)


def count_lines(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> int:
    """Returns how many lines a text has, as far as it can be unpacked within the limits."""
    path, lines, count = Path(path), 0, 0
    most = limits.unpacked(path.stat().st_size) if path.suffix.lower() == ".gz" else None
    with suppress(gzip.BadGzipFile, zlib.error, EOFError), open_bytes(path) as binary:
        while (most is None or count < most) and (part := binary.read(1 << 20)):
            lines += part.count(b"\n")
            count += len(part)
    return lines


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file, unpacked if its name ends in ``.gz``."""
    opened: Any = gzip.GzipFile if path.suffix.lower() == ".gz" else open
    return cast(BinaryIO, opened(path, "rb"))


def _open_text(
    path: Path,
    text: TextIO,
    position: Callable[[], int],
    delimiter: str | None,
    limits: Limits,
    keep_bad: bool,
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
    read = _parse_rows(itertools.chain(blank, lines), delimiter, limits)
    header: list[str] = []
    for line, row in read:
        _check_row(path, line, row)
        if any(row):
            header = [name.strip() for name in row]
            break
    limits.check("columns", len(header))
    if not any(header):
        raise DataError(Problem(str(path), "the file is empty"))
    return RowStream(header, read if keep_bad else _checked(path, read), position)


class _BadLine(str):
    """A line that cannot be used, with the reason."""

    reason: str

    @classmethod
    def of(cls, text: str, reason: str) -> _BadLine:
        line = cls(text)
        line.reason = reason
        return line


def _read_lines(
    path: Path, text: TextIO, position: Callable[[], int], limits: Limits
) -> Iterator[str]:
    """Yields the lines of a text, of those that are too long only the beginning.

    Raises an error if a packed file is too large.
    """
    longest = _CELLS_PER_LINE * limits.cell_length
    packed = path.suffix.lower() == ".gz"
    size = path.stat().st_size if packed else 0
    try:
        while line := text.readline(longest + 1):
            long, rest = len(line) > longest, line
            while long and rest and not rest.endswith(("\n", "\r")):
                if packed:
                    limits.check_unpacked(position(), size)
                rest = text.readline(longest)
            if packed:
                limits.check_unpacked(position(), size)
            if not line.isascii() and _NOT_UTF8.search(line):
                readable = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                line = _BadLine.of(readable, "not UTF-8 text: save the file as UTF-8")
            if long:
                reason = f"the length of a line exceeds {longest:,} characters; {_LONGER}"
                line = _BadLine.of(line, reason)
            yield line
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(Problem(str(path), f"damaged gzip file ({error})")) from None


def _parse_rows(
    lines: Iterator[str], delimiter: str, limits: Limits
) -> Iterator[tuple[int, list[str]]]:
    """Yields the line on which each row begins, and its cells.

    If a quote is not closed, it is not known where the row ends. Then, each of its lines is a row.
    Two such quotes look like one cell of several lines, which in turn look like rows.
    """
    taken: list[str] = []
    delimiters = -1  # of the header

    def recorded() -> Iterator[str]:
        for text in lines:
            taken.append(text)
            yield text

    reader, line = csv.reader(recorded(), delimiter=delimiter, strict=True), 1
    while True:
        taken.clear()
        try:
            with _cells_of(limits.cell_length):
                row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            rows = [_parse_line(text, delimiter, limits) for text in taken]
            if not isinstance(taken[0], _BadLine):
                rows[0] = BadRow.of(rows[0], _reason(error, limits), limits)
            yield from enumerate(rows, line)
        else:
            many = len(taken) > 1 and all(text.count(delimiter) == delimiters for text in taken)
            if many or _BadLine in map(type, taken):
                rows = [_parse_line(text, delimiter, limits) for text in taken]
                if many and not isinstance(taken[0], _BadLine):
                    rows[0] = BadRow.of(rows[0], _like_rows(line, len(taken)), limits)
                yield from enumerate(rows, line)
            else:
                yield line, row
            if delimiters < 0 and any(row):
                delimiters = len(row) - 1
        line += len(taken)


def _parse_line(text: str, delimiter: str, limits: Limits) -> list[str]:
    """Returns the cells of a line that is a row of its own."""
    text, reason = text.rstrip("\r\n"), text.reason if isinstance(text, _BadLine) else ""
    try:
        with _cells_of(limits.cell_length):
            row = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        if not reason or _is_long(error):
            reason = _reason(error, limits)
        with _cells_of(len(text)):
            row = next(csv.reader([text], delimiter=delimiter), [])
    return BadRow.of(row, reason, limits) if reason else row


def _like_rows(line: int, count: int) -> str:
    return (
        f"a quote is not closed: the cell goes on to line {line + count - 1}, and its lines look "
        f"like rows"
    )


def _reason(error: csv.Error, limits: Limits) -> str:
    if _is_long(error):
        return too_long(limits)
    return f"a quote is not closed, or closed too early ({error})"


def _is_long(error: csv.Error) -> bool:
    return "field limit" in str(error)


def _checked(path: Path, rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    for line, row in rows:
        _check_row(path, line, row)
        yield line, row


def _check_row(path: Path, line: int, row: list[str]) -> None:
    if isinstance(row, BadRow):
        raise DataError(Problem(str(path), row.reason, line))


@contextmanager
def _cells_of(length: int) -> Iterator[None]:
    """Sets the limit on the length of a cell, which is a setting of the whole process."""
    before = csv.field_size_limit(length)
    try:
        yield
    finally:
        csv.field_size_limit(before)
