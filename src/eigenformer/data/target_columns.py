"""Targets in the columns of a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eigenformer.config import ConfigError
from eigenformer.data.archive import GraphArchive
from eigenformer.data.cells import is_missing, parse_number, read_number
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import Field
from eigenformer.data.tables import Table
from eigenformer.targets import NumberTarget, Target, infer_target, target_class
from eigenformer.targets.base import TargetLevel

# Whole numbers are classes if they have at most so many different values, and at least so many
# rows per value on average.
_MOST_CLASSES, _LEAST_ROWS = 10, 5
# The largest rounding error of a target in float32, as a share of the targets' range.
_COARSE = 1e-5


class TargetColumns:
    """The target columns of a table: their kind, and the values of each row.

    Args:
        table: The table.
        names: The names of the columns to predict.
        kind: The kind of target; None to infer it from the values. Zeros and ones are labels,
            mostly words or a few whole numbers are classes, anything else is numbers.
    """

    def __init__(self, table: Table, names: Sequence[str], kind: str | None) -> None:
        self.table, self.names = table, tuple(names)
        self._cells = [table.column(name) for name in names]
        given = kind
        if kind is None and len(names) == 1 and _are_classes(self._cells[0]):
            kind = "multiclass"
        # If the kind is inferred from the values, any number is valid until all are read.
        self.target_class = NumberTarget if kind is None else target_class(kind)
        if kind in self.target_class.one_column and len(names) != 1:
            raise DataError(Problem(table.file, f"task: '{kind}' takes exactly one target"))
        if kind is not None and not names:
            raise DataError(Problem(table.file, f"task: '{kind}', but no targets are named"))
        if self.target_class.from_words and given is None:
            self._check_classes()
        self.kind = kind
        self.classes = _classes(self._cells[0]) if self.target_class.from_words else {}

    def _check_classes(self) -> None:
        """Raises an error if texts that were not declared as classes hardly ever repeat."""
        cells = [cell.strip() for cell in self._cells[0] if not is_missing(cell)]
        different = len(set(cells))
        if different > max(len(cells) / 2, _MOST_CLASSES):
            raise DataError(
                Problem(
                    self.table.file,
                    f"{self.names[0]}: {different} different texts in {len(cells)} rows, such as "
                    f"'{cells[0]}', are neither numbers (which have a decimal point) nor classes; "
                    f"use --task multiclass if they are classes",
                )
            )

    def read(self, row: int) -> list[float]:
        """Returns the targets of one row, NaN if missing. Raises an error if one is invalid."""
        return [
            self._value(name, cells[row])
            for name, cells in zip(self.names, self._cells, strict=True)
        ]

    def field(self, rows: np.ndarray, level: TargetLevel) -> tuple[Field, Target]:
        """Returns the values that were read, ``[rows, targets]``, as a field with its target."""
        values = in_single_precision(rows)
        for name, column in zip(self.names, values.T, strict=True):
            if np.isnan(column).all():
                raise DataError(Problem(self.table.file, f"{name}: no row has a value", 1))
        if self.target_class.from_words:
            names = tuple(dict.fromkeys(map(_class_name, self.classes)))
            target = self.target_class(level=level, num_outputs=len(names), names=names)
            long = np.dtype(np.int64)
            return Field(level, values[:, 0].astype(long), long), target
        target = values_target(values, self.names, self.kind, level)
        # One target is one number per graph, as usual in PyG. Several targets are a row.
        return Field(level, values[:, 0] if values.shape[1] == 1 else values, values.dtype), target

    def _value(self, name: str, cell: str) -> float:
        if self.target_class.from_words:
            if is_missing(cell):
                raise DataError(f"{name}: missing class")
            return float(self.classes[cell.strip()])
        if is_missing(cell):
            return float("nan")
        try:
            value = read_number(cell)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        if reason := self.target_class.invalid(value):
            raise DataError(f"{name}: '{cell}' is {reason}")
        return value


def values_target(
    values: np.ndarray, names: Sequence[str], kind: str | None, level: TargetLevel = "graph"
) -> Target:
    """Calls :func:`infer_target`. Raises a :class:`DataError` if the values are of another kind."""
    try:
        return infer_target(values, names, kind, level)
    except ConfigError as error:
        raise DataError(str(error)) from None


def in_single_precision(values: np.ndarray) -> np.ndarray:
    """Returns numbers as float32, or unchanged if float32 is too coarse for their differences."""
    single = values.astype(np.float32)
    if not len(values):
        return single
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value
        error = np.nanmax(np.abs(single - values), axis=0)
        spread = np.nanmax(values, axis=0) - np.nanmin(values, axis=0)
    return values if np.any((spread > 0) & (error > _COARSE * spread)) else single


def archive_target(archive: GraphArchive, task: str | None, path: str | Path) -> Target | None:
    """Returns the target of an archive: its own, or that of its attribute ``y`` and ``task``.

    Args:
        archive: The graphs.
        task: The kind of target; None to infer it from the values.
        path: Where the graphs are from, for error messages.
    """
    own, field = archive.target, archive.fields.get("y")
    if own is not None and task in (None, own.kind):
        return own
    if field is None or field.level == "edge":
        if task is not None:
            raise DataError(Problem(str(path), f"task: '{task}', but the graphs have no target y"))
        return own
    values = field.values
    # A column of one entry per row is the row itself.
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim > 2:
        reason = f"y has rows of shape {values.shape[1:]}, expected one row of targets"
        raise DataError(Problem(str(path), reason))
    columns = 1 if values.ndim == 1 else values.shape[1]
    names = own.names if own is not None and len(own.names) == columns else ()
    return values_target(values, names, task, field.level)


def _are_classes(cells: list[str]) -> bool:
    """Returns whether the cells are mostly words, or a few whole numbers that occur often."""
    numbers = [parse_number(cell) for cell in cells if not is_missing(cell)]
    if numbers.count(None) > len(numbers) / 2:
        return True
    values = set(numbers)
    whole = all(value is not None and value.is_integer() for value in values)
    few = len(values) <= _MOST_CLASSES and len(numbers) >= _LEAST_ROWS * len(values)
    return whole and few and not values <= {0, 1}


def _classes(cells: list[str]) -> dict[str, int]:
    """Returns the class of each text. Classes are in numerical or else alphabetical order."""
    texts = sorted({cell.strip() for cell in cells if not is_missing(cell)})
    numbers = {text: parse_number(text) for text in texts}
    if None not in numbers.values():
        texts.sort(key=lambda text: numbers[text] or 0.0)
    place = {name: number for number, name in enumerate(dict.fromkeys(map(_class_name, texts)))}
    return {text: place[_class_name(text)] for text in texts}


def _class_name(text: str) -> str:
    """Returns the text without a zero fraction: 1 in one row may be 1.0 in another."""
    stem, point, fraction = text.partition(".")
    whole = point and stem.lstrip("+-").isdigit() and not fraction.strip("0")
    return stem if whole else text
