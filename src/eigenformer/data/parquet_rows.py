"""Rows of Parquet files (extra ``parquet``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.data.rows import BadRow, RowStream, too_long
from eigenformer.limits import Limits


def open_parquet(path: Path, limits: Limits, keep_bad: bool) -> RowStream:
    """Opens a Parquet file to read its rows."""
    _, parquet = _arrow(path)
    with _told(path), placed(path), parquet.ParquetFile(path) as file:
        _check_size(file.metadata, path, limits)
        names = file.schema_arrow.names
        kinds = zip(names, file.schema_arrow.types, strict=True)
        texts, count = [name for name, kind in kinds if _is_text(kind)], file.metadata.num_rows
    if not names:
        raise DataError(Problem(str(path), "the file is empty"))
    length = [0]
    rows = _parquet_rows(path, names, texts, length, limits, keep_bad)
    return RowStream(names, rows, lambda: length[0], count)


def _parquet_rows(
    path: Path,
    names: list[str],
    texts: list[str],
    length: list[int],
    limits: Limits,
    keep_bad: bool,
) -> Iterator[tuple[int, list[str]]]:
    """Yields rows, numbered as in a text file, where the header is line 1."""
    _, parquet = _arrow(path)
    line = 2
    with _told(path), parquet.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=1024):
            columns = [_texts(column) for column in batch.columns]
            bad = any(_BadCell in map(type, column) for column in columns)
            for row in zip(*columns, strict=True):
                reason = too_long(limits) if max(map(len, row)) > limits.cell_length else ""
                for name, cell in zip(names, row, strict=True) if bad else ():
                    if isinstance(cell, _BadCell):
                        reason = f"column '{name}': {cell.reason}"
                if reason and not keep_bad:
                    raise DataError(Problem(str(path), reason, line))
                length[0] += sum(map(len, row))
                yield line, BadRow.of(row, reason, limits) if reason else list(row)
                line += 1


def _arrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(
            f"{path}: Parquet needs pyarrow: install it with  pip install 'eigenformer[parquet]'"
        ) from None
    return arrow, parquet


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


class _BadCell(str):
    """A cell that cannot be read, with the reason."""

    reason: str

    @classmethod
    def of(cls, reason: str, text: str = "") -> _BadCell:
        cell = cls(text)
        cell.reason = reason.partition("\n")[0][:200]
        return cell


def _texts(column: Any) -> list[str]:
    """Returns a column as texts. Equal texts that are stored once are one object."""
    if hasattr(column, "dictionary"):
        # Does not look at the texts. Without it, pyarrow would read places outside a dictionary.
        column.indices.validate(full=True)
        texts, places = [*_texts(column.dictionary), ""], column.indices.to_pylist()
        if any(place is not None and not 0 <= place < len(texts) - 1 for place in places):
            raise ValueError("a place outside the dictionary")
        return [texts[-1 if place is None else place] for place in places]
    kind = str(column.type)
    if _is_text(column.type):  # its bytes need not be UTF-8
        column = column.cast("large_binary" if kind.startswith("large") else "binary")
    column.validate(full=True)
    try:
        return list(map(_as_text, column.to_pylist()))
    except (ValueError, OverflowError, ImportError):  # for example, a date after the year 9999
        return [_cell(value) for value in column]


def _cell(value: Any) -> str:
    """Returns one cell as text. If Python has no such value, as Arrow writes it."""
    try:
        return _as_text(value.as_py())
    except (ValueError, OverflowError, ImportError) as error:
        with suppress(ValueError, OverflowError, NotImplementedError):
            text = _as_text(value.cast("string").as_py())
            if not text.startswith("<"):  # Arrow has no text for it either
                return text
        return _BadCell.of(str(error))


def _as_text(cell: object) -> str:
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError:
            return _BadCell.of("not UTF-8 text", cell.decode("utf-8", "replace"))
    return "" if cell is None else str(cell)
