"""A table with SMILES and targets → archive. Invalid rows are set aside with a reason."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.config import ReadOptions
from eigenformer.data.archive import GraphArchive
from eigenformer.data.cells import is_missing, named, read_weight
from eigenformer.data.descriptors import columns, read
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.featurizing import featurize_each
from eigenformer.data.fields import ROW_WEIGHT, Field
from eigenformer.data.molecules import FEATURIZERS, MoleculeError, MoleculeGraph, featurizer
from eigenformer.data.packed_molecules import PackedMolecules
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
class _Rows:
    """What the rows that gave a graph say beside it."""

    smiles: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    splits: list[str | None] = field(default_factory=list)
    weights: array[float] = field(default_factory=lambda: array("d"))
    targets: array[float] = field(default_factory=lambda: array("d"))


def read_molecule_table(
    path: Path,
    options: ReadOptions,
    reporter: Reporter | None = None,
    limits: Limits = DEFAULT_LIMITS,
    scratch: Path | None = None,
) -> Import:
    """Reads a CSV, TSV or Parquet table of molecules.

    Missing targets are NaN. Invalid rows are reported, not dropped. The cells of the table are in
    memory, and its graphs in temporary files.

    Args:
        path: The table.
        options: How to read it.
        reporter: Prints progress.
        limits: How large the table may be.
        scratch: The folder of temporary files (default: that of the system).
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
    graphs = featurize_each(smiles, name, reporter or Reporter(), limits, options.descriptors)
    rows, packed = _Rows(), PackedMolecules(featurizer(name), scratch)
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
        except DataError as error:
            rejected.append(Rejected(Problem(table.file, str(error), line), cells))
            continue
        packed.append(graph)
        rows.smiles.append(smiles[index].strip())
        rows.names.append(name)
        rows.splits.append(split)
        rows.weights.append(weight)
        rows.targets.extend(values)
    rejected.sort(key=lambda item: item.problem.line or 0)
    if not rows.names:
        raise DataError([item.problem for item in rejected])
    return Import(_archive(rows, packed.fields(), targets, rejected, options), tuple(rejected))


def with_columns(
    graph: MoleculeGraph, cells: Mapping[str, str], descriptors: Sequence[str]
) -> MoleculeGraph:
    """Returns the graph with the descriptors in the cells of its row, after the computed ones."""
    if not columns(descriptors):
        return graph
    return replace(graph, descriptors=np.concatenate([graph.descriptors, read(cells, descriptors)]))


def _archive(
    rows: _Rows,
    packed: dict[str, Any],
    targets: TargetColumns,
    rejected: list[Rejected],
    options: ReadOptions,
) -> GraphArchive:
    target = None
    if options.targets:
        values = np.array(rows.targets).reshape(len(rows.names), -1)
        packed["fields"]["y"], target = targets.field(values, "graph")
    if options.weight_column is not None:
        weights = np.array(rows.weights, dtype=np.float32)
        packed["fields"][ROW_WEIGHT] = Field("graph", weights, weights.dtype)
    if options.identifier is not None:
        packed["fields"]["smiles"] = Field.of_texts(rows.smiles)
    aside = [
        {"line": item.problem.line, "reason": item.problem.reason, "row": item.row}
        for item in rejected
    ]
    return GraphArchive(
        **packed,
        split=rows.splits,
        names=rows.names,
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
