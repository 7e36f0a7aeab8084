"""A table with SMILES and targets → archive. Invalid rows are set aside with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from eigenformer.config import ReadOptions
from eigenformer.data.archive import GraphArchive
from eigenformer.data.cells import is_missing, named, read_weight
from eigenformer.data.descriptors import columns, read
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.featurizing import featurize_all
from eigenformer.data.fields import ROW_WEIGHT, Field
from eigenformer.data.molecules import FEATURIZERS, MoleculeError, MoleculeGraph, molecule_fields
from eigenformer.data.splits import read_split
from eigenformer.data.tables import Rejected, read_table
from eigenformer.data.target_columns import TargetColumns
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.nearest import unknown
from eigenformer.reporting import Reporter


@dataclass(frozen=True)
class Import:
    """The result of reading: the graphs, and the rows that gave no graph."""

    archive: GraphArchive
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True)
class _Row:
    graph: MoleculeGraph
    smiles: str
    name: str
    targets: list[float]
    split: str | None
    weight: float


def read_molecule_table(
    path: Path,
    options: ReadOptions,
    reporter: Reporter | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Import:
    """Reads a CSV, TSV or Parquet table of molecules.

    Missing targets are NaN. Invalid rows are reported, not dropped.
    """
    table = read_table(path, limits=limits)
    if options.smiles not in table.columns:
        reason = unknown(f"column '{options.smiles}'", options.smiles, table.columns)
        raise DataError(Problem(table.file, f"{reason}; choose one with --smiles", 1))
    for name in (options.identifier, options.split_column, options.weight_column):
        if name is not None:
            table.column(name)
    targets = TargetColumns(table, options.targets, options.task)
    smiles = table.column(options.smiles)
    for name in columns(options.descriptors):
        table.column(name)
    name = options.featurizer or FEATURIZERS[0]
    features = (name, reporter or Reporter(), limits, options.descriptors)
    graphs = featurize_all(smiles, *features)
    rows: list[_Row] = []
    rejected = list(table.ragged)
    names: dict[str, int] = {}
    for index, graph in enumerate(graphs):
        cells, line = table.row(index), table.lines[index]
        try:
            if isinstance(graph, MoleculeError):
                raise graph
            graph = with_columns(graph, cells, options.descriptors)
            values, split = targets.read(index), _split(cells, options)
            weight = _weight(cells, options)
            name = _name(cells, line, names, options)
            rows.append(_Row(graph, smiles[index].strip(), name, values, split, weight))
        except DataError as error:
            rejected.append(Rejected(Problem(table.file, str(error), line), cells))
    rejected.sort(key=lambda item: item.problem.line or 0)
    if not rows:
        raise DataError([item.problem for item in rejected])
    return Import(_archive(rows, targets, rejected, options), tuple(rejected))


def with_columns(
    graph: MoleculeGraph, cells: Mapping[str, str], descriptors: Sequence[str]
) -> MoleculeGraph:
    """Returns the graph with the descriptors in the cells of its row, after the computed ones."""
    if not columns(descriptors):
        return graph
    return replace(graph, descriptors=np.concatenate([graph.descriptors, read(cells, descriptors)]))


def _archive(
    rows: list[_Row], targets: TargetColumns, rejected: list[Rejected], options: ReadOptions
) -> GraphArchive:
    packed = molecule_fields([row.graph for row in rows])
    target = None
    if options.targets:
        values = np.array([row.targets for row in rows])
        packed["fields"]["y"], target = targets.field(values, "graph")
    if options.weight_column is not None:
        weights = np.array([row.weight for row in rows], dtype=np.float32)
        packed["fields"][ROW_WEIGHT] = Field("graph", weights, weights.dtype)
    if options.identifier is not None:
        packed["fields"]["smiles"] = Field.of_texts([row.smiles for row in rows])
    aside = [
        {"line": item.problem.line, "reason": item.problem.reason, "row": item.row}
        for item in rejected
    ]
    return GraphArchive(
        **packed,
        split=[row.split for row in rows],
        names=[row.name for row in rows],
        target=target,
        meta={"featurizer": options.featurizer or FEATURIZERS[0], "rejected": aside},
    )


def _split(cells: dict[str, str], options: ReadOptions) -> str | None:
    if options.split_column is None or is_missing(cells[options.split_column]):
        return None
    return read_split(cells[options.split_column])


def _weight(cells: dict[str, str], options: ReadOptions) -> float:
    if options.weight_column is None:
        return 1.0
    with named(options.weight_column):
        return read_weight(cells[options.weight_column])


def _name(cells: dict[str, str], line: int, seen: dict[str, int], options: ReadOptions) -> str:
    if options.identifier is None:
        return cells[options.smiles].strip()
    name = cells[options.identifier].strip()
    if not name:
        raise DataError(f"{options.identifier}: empty")
    if name in seen:
        raise DataError(f"{options.identifier}: '{name}' already appears on line {seen[name]}")
    seen[name] = line
    return name
