"""The predictions for graphs, or the reasons why there are none, as cells of a table."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.models.ensemble import Ensemble
from eigenformer.targets import Target

if TYPE_CHECKING:
    from eigenformer.trained_model import TrainedModel

REASON = "reason"
"""The last column: why there is no prediction."""

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": ","}
"""The delimiter of an output by the end of its name, which may be followed by ``.gz``."""


@dataclass(frozen=True)
class PredictionCounts:
    """The number of rows, and the number of rows with a prediction."""

    rows: int
    predicted: int


@dataclass(frozen=True, eq=False)
class Found:
    """The prediction for one graph, or the reason why there is none.

    Args:
        values: The prediction in units, ``[rows, *]``.
        spread: The spread of an ensemble, of the same shape; None for any other model.
        reason: Why there is no prediction; empty if there is one.
        novelty: How unlike the training set the graph is; NaN if it was not asked for.
    """

    values: np.ndarray
    spread: np.ndarray | None = None
    reason: str = ""
    novelty: float = float("nan")

    @classmethod
    def none(cls, reason: str) -> Found:
        """Returns that there is no prediction."""
        return cls(np.zeros((0, 0)), reason=reason)


@dataclass(frozen=True, eq=False)
class PredictionForm:
    """The columns of a prediction.

    Args:
        target: What is predicted.
        spreads: Whether there are columns with the spread of an ensemble.
        bounds: The bounds of intervals; None for no intervals.
        novelty: Whether there is a column with the novelty.
    """

    target: Target
    spreads: bool
    bounds: np.ndarray | None
    novelty: bool = False

    @classmethod
    def of(cls, trained: TrainedModel, interval: float | None, novelty: bool) -> PredictionForm:
        """Returns the columns for a model, with intervals of this level if there is one."""
        bounds = None if interval is None else trained.bounds(interval)
        if novelty:
            trained.check_reference()
        return cls(trained.target, isinstance(trained.model, Ensemble), bounds, novelty)

    def header(self) -> list[str]:
        """Returns the names of the columns, without that of the reason."""
        names = [f"spread_{name}" for name in self.target.column_names] if self.spreads else []
        ends = [] if self.bounds is None else self.target.interval_header()
        return [*self.target.header(), *names, *ends, *(["novelty"] if self.novelty else [])]

    def row(self, found: Found, node: int = 0) -> list[str]:
        """Returns the cells of these columns and of the reason."""
        if found.reason:
            return [*[""] * len(self.header()), found.reason]
        values = found.values[node]
        spread = [] if found.spread is None else [str(value) for value in found.spread[node]]
        ends = [] if self.bounds is None else self.target.interval_cells(values, self.bounds)
        new = [f"{found.novelty:.4g}"] if self.novelty else []
        return [*self.target.cells(values), *spread[: self.target.num_outputs], *ends, *new, ""]

    def values(self, found: Found) -> dict[str, float | str] | None:
        """Returns the cells of these columns as numbers and words; None without a prediction."""
        if found.reason:
            return None
        cells = zip(self.header(), self.row(found), strict=False)  # the reason is left out
        words = self.target.worded
        return {name: cell if name in words else float(cell) for name, cell in cells}


def check_suffix(out: Path) -> None:
    """Raises an error if a file's name does not say how to write it."""
    if _packing(out)[1] not in _DELIMITERS:
        raise DataError(
            f"{out}: predictions are written to {', '.join(_DELIMITERS)} files, which may end in "
            f".gz; give such a name"
        )


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


def predict_each(trained: TrainedModel, archive: GraphArchive, form: PredictionForm) -> list[Found]:
    """Returns the prediction for each graph, or the reason why it has none."""
    found = _predicted(trained, archive)
    if not form.novelty:
        return found
    good = [graph for graph, part in enumerate(found) if not part.reason]
    values = trained.novelty(archive.subset(good)) if good else ()
    for graph, value in zip(good, values, strict=True):
        found[graph] = replace(found[graph], novelty=float(value))
    return found


def _predicted(trained: TrainedModel, archive: GraphArchive) -> list[Found]:
    sizes = trained.target.rows(archive.num_nodes.tolist())
    try:
        predicted = trained.predictions(archive)
    except (ValueError, RuntimeError, MemoryError):  # RuntimeError: PyTorch's memory is exhausted
        return [_predict_one(trained, archive.subset([graph])) for graph in range(len(archive))]
    values = [part.numpy() for part in predicted.values.split(sizes)]
    if predicted.spread is None:
        return [_checked(part) for part in values]
    spreads = predicted.spread.split(sizes)
    return [_checked(part, own.numpy()) for part, own in zip(values, spreads, strict=True)]


def _predict_one(trained: TrainedModel, archive: GraphArchive) -> Found:
    try:
        predicted = trained.predictions(archive)
    except (ValueError, RuntimeError, MemoryError) as error:
        return Found.none(_reason(error))
    spread = predicted.spread
    return _checked(predicted.values.numpy(), None if spread is None else spread.numpy())


def _checked(values: np.ndarray, spread: np.ndarray | None = None) -> Found:
    finite = np.isfinite(values).all()
    return Found(values, spread, "" if finite else "the prediction is not a finite number")


def _reason(error: Exception) -> str:
    """Returns why there is no prediction for a graph that was processed alone, in one line."""
    if isinstance(error, MemoryError):
        return "too large for the memory of this machine"
    lines = str(error).removeprefix("graph 0 of the batch: ").removeprefix("graph 0: ").splitlines()
    return lines[0] if lines else type(error).__name__
