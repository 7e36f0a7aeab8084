"""A table with SMILES and targets → archive; rows that cannot be used are set aside, with why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import number_splits
from eigenformer.data.molecules import Featurizer, MoleculeGraph, featurizer, molecule_fields
from eigenformer.data.own import Import, OwnData, Rejected, split_archive, target_field
from eigenformer.data.progress import Reporter
from eigenformer.data.splits import read_split
from eigenformer.data.tables import Table, is_missing, read_table


@dataclass(frozen=True)
class _Row:
    graph: MoleculeGraph
    smiles: str
    name: str
    targets: list[float]
    split: str | None


def read_molecule_table(path: Path, options: OwnData, report: Reporter | None = None) -> Import:
    """Reads CSV, TSV or Parquet. Missing targets are NaN; bad rows are reported, not dropped."""
    table = read_table(path)
    wanted = [options.smiles, *options.targets]
    wanted += [name for name in (options.identifier, options.split_column) if name is not None]
    for name in wanted:
        table.column(name)
    classes = _classes(table, options)
    make = featurizer(options.featurizer)
    rows: list[_Row] = []
    rejected: list[Rejected] = []
    seen: dict[str, int] = {}
    with (report or Reporter()).step("molecules", len(table)) as step:
        for index, line in enumerate(table.lines):
            cells = table.row(index)
            try:
                rows.append(_row(cells, line, make, classes, seen, options))
            except DataError as error:
                rejected.append(Rejected(Problem(table.file, str(error), line), cells))
            step.advance(1)
    if not rows:
        raise DataError([item.problem for item in rejected])
    return Import(_archive(rows, classes, rejected, options), tuple(rejected))


def _row(
    cells: dict[str, str],
    line: int,
    make: Featurizer,
    classes: list[str],
    seen: dict[str, int],
    options: OwnData,
) -> _Row:
    smiles = cells[options.smiles].strip()
    graph = make(smiles)
    targets = [_number(cells[key], key, classes) for key in options.targets]
    split = None
    if options.split_column is not None and not is_missing(cells[options.split_column]):
        split = read_split(cells[options.split_column])
    return _Row(graph, smiles, _name(cells, options, seen, line), targets, split)


def _archive(
    rows: list[_Row], classes: list[str], rejected: list[Rejected], options: OwnData
) -> GraphArchive:
    packed = molecule_fields([row.graph for row in rows])
    task = None
    if options.targets:
        values = np.array([row.targets for row in rows])
        packed["fields"]["y"], task = target_field(
            values, classes, options.targets, options, "graph"
        )
    aside = [
        {"line": item.problem.line, "reason": item.problem.reason, "row": item.row}
        for item in rejected
    ]
    meta = {"featurizer": options.featurizer, "rejected": aside}
    if options.identifier is not None:
        meta["smiles"] = [row.smiles for row in rows]
    archive = GraphArchive(
        **packed,
        split=number_splits([row.split for row in rows]),
        names=[row.name for row in rows],
        task=task,
        meta=meta,
    )
    return split_archive(archive, options)


def _classes(table: Table, options: OwnData) -> list[str]:
    """The names of the classes, where the target is one: every value that occurs, sorted."""
    if options.task != "multiclass":
        return []
    if len(options.targets) != 1:
        raise DataError(Problem(table.file, "task: 'multiclass' takes exactly one target column"))
    cells = {cell.strip() for cell in table.column(options.targets[0]) if not is_missing(cell)}
    numeric = all(cell.lstrip("-").isdigit() for cell in cells)
    return sorted(cells, key=int) if numeric else sorted(cells)


def _name(cells: dict[str, str], options: OwnData, seen: dict[str, int], line: int) -> str:
    if options.identifier is None:
        return cells[options.smiles].strip()
    name = cells[options.identifier].strip()
    if not name:
        raise DataError(f"{options.identifier}: empty")
    if name in seen:
        raise DataError(f"{options.identifier}: '{name}' is on line {seen[name]} already")
    seen[name] = line
    return name


def _number(cell: str, column: str, classes: list[str]) -> float:
    if is_missing(cell):
        if classes:
            raise DataError(f"{column}: no class")
        return float("nan")
    if classes:
        return float(classes.index(cell.strip()))
    try:
        value = float(cell)
    except ValueError:
        raise DataError(f"{column}: '{cell}' is not a number") from None
    if not np.isfinite(value):
        raise DataError(f"{column}: '{cell}' is not finite")
    return value
