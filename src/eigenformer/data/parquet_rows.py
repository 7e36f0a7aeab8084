"""Rows of Parquet files (extra ``parquet``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
            batch.validate(full=True)  # pyarrow reads places outside a dictionary as they are
            columns = [_cells(*column, path) for column in zip(names, batch.columns, strict=True)]
            for row in zip(*columns, strict=True):
                long = max(map(len, row)) > limits.cell_length
                if long and not keep_bad:
                    raise DataError(Problem(str(path), too_long(limits), line))
                length[0] += sum(map(len, row))
                yield line, BadRow.of(row, too_long(limits), limits) if long else list(row)
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
