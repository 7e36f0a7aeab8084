"""Three plain tables → archive, for people without molecules.

- ``graphs``: a column ``graph`` with the graphs' names; targets of graphs; a split column.
- ``nodes``: ``graph``, ``node``; every other column is a feature, but for targets of nodes.
- ``edges``: ``graph``, ``source``, ``target``; every other column is a feature.

Names may be any text. Here nothing is set aside: a table that contradicts another is reported,
with all its lines, and nothing is made of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import Field, Task, number_splits
from eigenformer.data.own import OwnData, target_field
from eigenformer.data.splits import read_split
from eigenformer.data.tables import SUFFIXES, Table, is_missing, read_table

_NAMES = ("graphs", "nodes", "edges")


def is_graph_tables(folder: Path) -> bool:
    """Whether a folder holds one of the three tables."""
    return any(_find(folder, name) is not None for name in _NAMES)


def read_graph_tables(folder: Path, options: OwnData) -> GraphArchive:
    """Reads the three tables of a folder, as CSV, TSV or Parquet."""
    tables = []
    for name in _NAMES:
        path = _find(folder, name)
        if path is None:
            raise DataError(Problem(str(folder), f"the table '{name}' is missing"))
        tables.append(read_table(path))
    graphs, nodes, edges = tables
    problems: list[Problem] = []
    graph_of = _index(graphs, problems)
    order, sizes, node_of = _nodes(nodes, graph_of, problems)
    ends, counts, edge_order = _edges(edges, graph_of, node_of, problems)
    for name, graph in graph_of.items():
        if not problems and sizes[graph] == 0:
            line = graphs.lines[graphs.column("graph").index(name)]
            problems.append(Problem(graphs.file, f"graph '{name}' has no nodes", line))
    if problems:
        raise DataError(problems)

    level, table, rows = _target_place(graphs, nodes, order, options)
    skip = {"graph", "node", *(options.targets if level == "node" else ())}
    fields: dict[str, Field] = {}
    if x := _features(nodes, order, skip, "node"):
        fields["x"] = x
    if edge_attr := _features(edges, edge_order, {"graph", "source", "target"}, "edge"):
        fields["edge_attr"] = edge_attr
    if options.undirected:
        ends, counts, fields = _both_ways(ends, counts, fields)
    task = None
    if options.targets:
        fields["y"], task = _targets(table, rows, level, options)
    return GraphArchive(
        node_offsets=np.cumsum([0, *sizes]),
        edge_offsets=np.cumsum([0, *counts]),
        edge_index=ends,
        fields=fields,
        split=_split(graphs, options),
        names=list(graph_of),
        task=task or Task(),
    )


def _find(folder: Path, name: str) -> Path | None:
    for suffix in SUFFIXES:
        for ending in (suffix, f"{suffix}.gz"):
            if (folder / f"{name}{ending}").is_file():
                return folder / f"{name}{ending}"
    return None


def _index(graphs: Table, problems: list[Problem]) -> dict[str, int]:
    graph_of: dict[str, int] = {}
    for name, line in zip(graphs.column("graph"), graphs.lines, strict=True):
        if name in graph_of:
            problems.append(Problem(graphs.file, f"graph '{name}' is there twice", line))
        graph_of.setdefault(name, len(graph_of))
    return graph_of


def _nodes(
    nodes: Table, graph_of: dict[str, int], problems: list[Problem]
) -> tuple[np.ndarray, list[int], dict[tuple[int, str], int]]:
    """The rows sorted by graph, nodes per graph, and each node's number within its graph."""
    sizes = [0] * len(graph_of)
    node_of: dict[tuple[int, str], int] = {}
    graphs = []
    columns = nodes.column("graph"), nodes.column("node")
    for graph_name, name, line in zip(*columns, nodes.lines, strict=True):
        graph = graph_of.get(graph_name, -1)
        graphs.append(graph)
        if graph < 0:
            problems.append(Problem(nodes.file, f"graph '{graph_name}' is not in graphs", line))
        elif (graph, name) in node_of:
            reason = f"node '{name}' of graph '{graph_name}' is there twice"
            problems.append(Problem(nodes.file, reason, line))
        else:
            node_of[graph, name] = sizes[graph]
            sizes[graph] += 1
    return np.argsort(graphs, kind="stable"), sizes, node_of


def _edges(
    edges: Table,
    graph_of: dict[str, int],
    node_of: dict[tuple[int, str], int],
    problems: list[Problem],
) -> tuple[np.ndarray, list[int], np.ndarray]:
    """The edges sorted by graph, edges per graph, and the rows they are from."""
    counts = [0] * len(graph_of)
    graphs, ends = [], []
    columns = edges.column("graph"), edges.column("source"), edges.column("target")
    for graph_name, source, target, line in zip(*columns, edges.lines, strict=True):
        graph = graph_of.get(graph_name, -1)
        if graph < 0:
            problems.append(Problem(edges.file, f"graph '{graph_name}' is not in graphs", line))
            continue
        for name in (source, target):
            if (graph, name) not in node_of:
                reason = f"node '{name}' is not among the nodes of graph '{graph_name}'"
                problems.append(Problem(edges.file, reason, line))
        ends.append((node_of.get((graph, source), 0), node_of.get((graph, target), 0)))
        graphs.append(graph)
        counts[graph] += 1
    order = np.argsort(graphs, kind="stable").astype(np.int64)
    return np.array(ends, dtype=np.int64).reshape(-1, 2)[order].T, counts, order


def _features(table: Table, order: np.ndarray, skip: set[str], level: Any) -> Field | None:
    """The feature columns: whole numbers as integers, anything else as float32."""
    columns = [name for name in table.columns if name not in skip]
    if not columns:
        return None
    values = np.stack([_numbers(table, name, missing=False) for name in columns], axis=1)[order]
    whole = all(
        cell.strip().lstrip("+-").isdigit() for name in columns for cell in table.columns[name]
    )
    dtype = np.dtype(np.int64 if whole else np.float32)
    return Field(level, values.astype(dtype), dtype)


def _numbers(table: Table, column: str, missing: bool) -> np.ndarray:
    """A column of numbers; a missing one is NaN where that is allowed."""
    values, problems = [], []
    for cell, line in zip(table.column(column), table.lines, strict=True):
        value = float("nan")
        try:
            if not (missing and is_missing(cell)):
                value = float(cell)
                if not np.isfinite(value):
                    raise ValueError
        except ValueError:
            problems.append(Problem(table.file, f"{column}: '{cell}' is not a number", line))
        values.append(value)
    if problems:
        raise DataError(problems)
    return np.array(values)


def _target_place(
    graphs: Table, nodes: Table, order: np.ndarray, options: OwnData
) -> tuple[str, Table, np.ndarray]:
    """Targets are columns of ``graphs``, or else of ``nodes``."""
    if options.targets and all(name in nodes.columns for name in options.targets):
        return "node", nodes, order
    for name in options.targets:
        graphs.column(name)
    return "graph", graphs, np.arange(len(graphs))


def _targets(table: Table, rows: np.ndarray, level: str, options: OwnData) -> tuple[Field, Task]:
    if options.task == "multiclass":
        if len(options.targets) != 1:
            raise DataError(Problem(table.file, "task: 'multiclass' takes exactly one column"))
        cells = [cell.strip() for cell in table.column(options.targets[0])]
        problems = [
            Problem(table.file, f"{options.targets[0]}: no class", line)
            for cell, line in zip(cells, table.lines, strict=True)
            if is_missing(cell)
        ]
        if problems:
            raise DataError(problems)
        numeric = all(cell.lstrip("-").isdigit() for cell in cells)
        classes = sorted(set(cells), key=int) if numeric else sorted(set(cells))
        place = {name: number for number, name in enumerate(classes)}
        values = np.array([place[cell] for cell in cells])[rows]
        return target_field(values, classes, options.targets, options, level)
    columns = [_numbers(table, name, missing=True) for name in options.targets]
    return target_field(np.stack(columns, axis=1)[rows], (), options.targets, options, level)


def _both_ways(
    ends: np.ndarray, counts: list[int], fields: dict[str, Field]
) -> tuple[np.ndarray, list[int], dict[str, Field]]:
    """Each edge and, right after it, its reverse with the same features; a loop stays one."""
    both = np.stack([ends, ends[::-1]], axis=2).reshape(2, -1)
    reverse = np.arange(both.shape[1]) % 2 == 1
    keep = ~(reverse & (both[0] == both[1]))
    graph = np.repeat(np.repeat(np.arange(len(counts)), counts), 2)[keep]
    if "edge_attr" in fields:
        field = fields["edge_attr"]
        values = np.repeat(field.values, 2, axis=0)[keep]
        fields = {**fields, "edge_attr": Field("edge", values, field.dtype)}
    return both[:, keep], np.bincount(graph, minlength=len(counts)).tolist(), fields


def _split(graphs: Table, options: OwnData) -> np.ndarray | None:
    if options.split_column is None:
        return None
    names: list[str | None] = []
    problems = []
    for cell, line in zip(graphs.column(options.split_column), graphs.lines, strict=True):
        try:
            names.append(None if is_missing(cell) else read_split(cell))
        except DataError as error:
            problems.append(Problem(graphs.file, str(error), line))
    if problems:
        raise DataError(problems)
    return number_splits(names)
