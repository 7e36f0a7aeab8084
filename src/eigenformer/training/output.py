"""What is written for each row of an input: pieces of rows, and the files that take them."""

from __future__ import annotations

import csv
import gzip
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from eigenformer.data.errors import DataError
from eigenformer.training.found import Found
from eigenformer.training.partial_file import PartialFile

REASON = "reason"
"""The last column: why a row has no values."""

Rows = list[list[str]]

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": ","}
"""The delimiter of an output by the end of its name, which may be followed by ``.gz``."""


@dataclass(frozen=True)
class PredictionCounts:
    """The number of rows of the input, and the number of those with a prediction."""

    rows: int
    predicted: int


class Piece(ABC):
    """Complete rows of an output.

    Attributes:
        counts: How many rows of the input it stands for.
    """

    counts: PredictionCounts

    @abstractmethod
    def text(self) -> Rows:
        """Returns the rows as text, with the reason in the last column."""


@dataclass(frozen=True, eq=False)
class TextPiece(Piece):
    """Rows that are text already."""

    rows: Rows
    counts: PredictionCounts

    def text(self) -> Rows:
        return self.rows


PieceType = TypeVar("PieceType", bound=Piece, contravariant=True)


class Output(ABC, Generic[PieceType]):
    """A file that is written in pieces.

    Args:
        out: The file to write.

    Attributes:
        rows: How many rows of the input are complete.
        predicted: How many of them have a prediction.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.rows = self.predicted = 0

    @abstractmethod
    def append(self, piece: PieceType) -> None:
        """Adds complete rows."""

    @abstractmethod
    def finish(self) -> None:
        """Gives the complete output its name."""

    @abstractmethod
    def close(self) -> None:
        """Stops writing."""


class TextOutput(Output[Piece]):
    """A text file. What is complete of it is kept, and continued by a process that does the same.

    Args:
        out: The file to write: CSV or TSV, which may end in ``.gz``.
        names: The names of the columns.
        key: Identifies the work. See :class:`PartialFile`.
        cell: Applied to every cell that is written.
    """

    def __init__(
        self, out: Path, names: list[str], key: str, cell: Callable[[str], str] = str
    ) -> None:
        super().__init__(out)
        self._cell = cell
        self._file = PartialFile(out, key)
        self.rows, self.predicted = self._file.rows, self._file.predicted
        if not self.rows:
            self._file.append(encoded(out, [names], cell), 0, 0)

    def append(self, piece: Piece) -> None:
        counts = piece.counts
        data = encoded(self.out, piece.text(), self._cell)
        self._file.append(data, counts.rows, counts.predicted)
        self.rows, self.predicted = self._file.rows, self._file.predicted

    def finish(self) -> None:
        self._file.finish()

    def close(self) -> None:
        self._file.close()


def counted(found: Sequence[Found]) -> PredictionCounts:
    """Returns how many graphs there are, and how many of them have values."""
    return PredictionCounts(len(found), sum(not part.reason for part in found))


def by_node(
    rows: Rows, found: Sequence[Found], names: Sequence[Sequence[str]] | None
) -> Iterator[tuple[list[str], Found, int]]:
    """Yields the cells, what was found, and the number of each node, for all graphs in order.

    The name of the node is the last cell. A graph that could not be read has one row, because it is
    not known how many nodes it has; its node is -1.
    """
    for place, (cells, part) in enumerate(zip(rows, found, strict=True)):
        if not len(part.values):
            yield [*cells, ""], part, -1
            continue
        for node in range(len(part.values)):
            yield [*cells, str(node) if names is None else names[place][node]], part, node


def is_text(out: Path) -> bool:
    """Whether a file's name stands for text."""
    return _packing(out)[1] in _DELIMITERS


def check_suffix(out: Path, what: str = "predictions", others: Sequence[str] = ()) -> None:
    """Raises an error if a file's name does not say how to write it.

    Args:
        out: The file.
        what: What is written to it.
        others: The ends of names that stand for other formats than text.
    """
    if is_text(out) or out.suffix.lower() in others:
        return
    text = f"{', '.join(_DELIMITERS)} files, which may end in .gz"
    more = f"{', '.join(others)} or " if others else ""
    raise DataError(f"{out}: {what} are written to {more}{text}; give such a name")


def encoded(out: Path, rows: Iterable[list[str]], cell: Callable[[str], str] = str) -> bytes:
    """Returns rows in the format that the name of a file stands for.

    Args:
        out: The file, which ends in ``.csv``, ``.tsv`` or ``.txt``, or one of these and ``.gz``.
        rows: The rows.
        cell: Applied to every cell.
    """
    packed, suffix = _packing(out)
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=_DELIMITERS[suffix])
    writer.writerows([cell(text) for text in row] for row in rows)
    data = stream.getvalue().encode("utf-8")
    return gzip.compress(data, mtime=0) if packed else data  # packed pieces can be put together


def _packing(out: Path) -> tuple[bool, str]:
    """Returns whether a file is packed, and the end of its name without ``.gz``."""
    packed = out.suffix.lower() == ".gz"
    return packed, (out.with_suffix("") if packed else out).suffix.lower()
