"""Rows of tables, one after the other, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from eigenformer.limits import Limits


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


class BadRow(list[str]):
    """A row that cannot be used, with the reason. Cells that are too long are empty."""

    reason: str

    @classmethod
    def of(cls, cells: Iterable[str], reason: str, limits: Limits) -> BadRow:
        """Returns the cells with the reason."""
        row = cls(cell if len(cell) <= limits.cell_length else "" for cell in cells)
        row.reason = reason
        return row


def too_long(limits: Limits) -> str:
    """Returns what is wrong with a row that has a cell beyond the limit."""
    return f"the length of a cell exceeds {limits.advice('cell_length')}"
