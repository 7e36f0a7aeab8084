"""Three plain tables → archive, for graphs that are not molecules.

- ``graphs``: a column ``graph`` with the graphs' names; targets of graphs; a split column.
- ``nodes``: ``graph``, ``node``; every other column is a feature, except targets of nodes.
- ``edges``: ``graph``, ``source``, ``target``; every other column is a feature.

Names may be any text. Invalid rows are never skipped: if the tables contradict each other, all
lines at fault are reported and no archive is created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.config import InputFormat, ReadOptions
from eigenformer.data.archive import GraphArchive
from eigenformer.data.cells import (
    is_lost_in_single_precision,
    is_missing,
    is_whole,
    named,
    parse_number,
    read_number,
    read_weight,
    read_whole,
)
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import ROW_WEIGHT, Field, Level
from eigenformer.data.splits import read_split
from eigenformer.data.tables import SUFFIXES, Rejected, Table, read_table
from eigenformer.data.target_columns import TargetColumns
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits
from eigenformer.nearest import unknown
from eigenformer.targets.base import TargetLevel

_NAMES = ("graphs", "nodes", "edges")


def is_graph_tables(folder: Path) -> bool:
    """Returns whether a folder holds at least one of the three tables."""
    return any(_find(folder, name) is not None for name in _NAMES)


def read_graph_tables(
    folder: Path,
    options: ReadOptions,
    expected: InputFormat | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> GraphArchive:
    """Reads the three tables of a folder, as CSV, TSV or Parquet.

    To predict, ``expected`` says which columns a model ignores. The tables may lack them.
    """
    return GraphTables.read(folder, limits).archive(options, expected, limits)


@dataclass(frozen=True)
class GraphTables:
    """The three tables."""

    graphs: Table
    nodes: Table
    edges: Table

    @classmethod
    def read(
        cls, folder: Path, limits: Limits = DEFAULT_LIMITS, keep_bad: bool = False
    ) -> GraphTables:
        """Reads the tables of a folder. See :func:`read_table` for ``keep_bad``."""
        tables = []
        for name in _NAMES:
            path = _find(folder, name)
            if path is None:
                raise DataError(Problem(str(folder), f"the table '{name}' is missing"))
            tables.append(read_table(path, name != "edges", limits, keep_bad))
        return cls(*tables)

    def archive(
        self,
        options: ReadOptions,
        expected: InputFormat | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> GraphArchive:
        """Returns the graphs. Raises an error that lists every line at fault."""
        return _archive(self, options, expected, limits)

    def names(self) -> list[str]:
        """Returns the names of all graphs in the order of their lines, also of invalid lines."""
        found = list(zip(self.graphs.lines, self.graphs.column("graph"), strict=True))
        found += [(row.problem.line or 0, _graph_in(row)) for row in self.graphs.ragged]
        return [name for _, name in sorted(found)]

    def has_orphans(self) -> bool:
        """Returns whether a line of nodes or edges belongs to no graph of the table ``graphs``.

        Then, it is not known which graph lacks it.
        """
        known = set(self.names())
        parts = (self.nodes, self.edges)
        others = [_graph_in(row) for table in parts for row in table.ragged]
        return not {*others, *(name for t in parts for name in t.column("graph"))} <= known

    def rejected(self) -> dict[str, str]:
        """Returns what is wrong with graphs that have an invalid line, or two lines."""
        found: dict[str, str] = {}
        known: set[str] = set()
        for name, line in zip(self.graphs.column("graph"), self.graphs.lines, strict=True):
            if name in known:
                found[name] = str(_twice(self.graphs, name, line))
            known.add(name)
        rows = [row for table in self._all() for row in table.ragged]
        return {**found, **{_graph_in(row): str(row.problem) for row in rows}}

    def split_up(self) -> Callable[[Collection[str]], GraphTables]:
        """Returns a function that returns the valid lines of the named graphs."""
        places: list[dict[str, list[int]]] = []
        for table in self._all():
            rows: dict[str, list[int]] = {}
            for place, name in enumerate(table.column("graph")):
                rows.setdefault(name, []).append(place)
            places.append(rows)

        def only(names: Collection[str]) -> GraphTables:
            return GraphTables(
                *(
                    table.subset([place for name in names for place in rows.get(name, ())])
                    for table, rows in zip(self._all(), places, strict=True)
                )
            )

        return only

    def _all(self) -> tuple[Table, Table, Table]:
        return self.graphs, self.nodes, self.edges


def _archive(
    tables: GraphTables, options: ReadOptions, expected: InputFormat | None, limits: Limits
) -> GraphArchive:
    graphs, nodes, edges = tables.graphs, tables.nodes, tables.edges
    problems = [row.problem for table in (graphs, nodes, edges) for row in table.ragged]
    graph_of = _index(graphs, problems)
    order, sizes, node_of = _nodes(nodes, graph_of, problems)
    ends, counts, edge_order = _edges(edges, graph_of, node_of, problems)
    if not problems:
        problems += _sizes_at_fault(graphs, graph_of, sizes, limits)
    if problems:
        raise DataError(problems)

    level = _target_level(graphs, nodes, options)
    _check_ignored(options.ignored_columns, nodes, edges)
    ignored, targets = set(options.ignored_columns), set(options.targets)
    if expected is not None:
        ignored, targets = set(expected.ignored_columns), set(expected.target_columns)
    skip = {"graph", "node"} | ignored
    if level == "node" or expected is not None:
        skip |= targets
    fields: dict[str, Field] = {}
    columns = {
        "x": _feature_names(nodes, skip),
        "edge_attr": _feature_names(edges, {"graph", "source", "target"} | ignored),
    }
    if columns["x"]:
        fields["x"] = _features(nodes, order, columns["x"], "node", expected is None)
    if columns["edge_attr"]:
        fields["edge_attr"] = _features(
            edges, edge_order, columns["edge_attr"], "edge", expected is None
        )
    if options.undirected:
        ends, counts, fields = _both_ways(ends, counts, fields)
    table, rows = (nodes, order) if level == "node" else (graphs, np.arange(len(graphs)))
    if options.weight_column is not None:
        fields[ROW_WEIGHT] = _weights(graphs, options.weight_column)
    wanted, target = TargetColumns(table, options.targets, options.task), None
    if options.targets:
        values = _read_rows(table, wanted.read)
        fields["y"], target = wanted.field(values[rows], level)
    return GraphArchive(
        node_offsets=np.cumsum([0, *sizes]),
        edge_offsets=np.cumsum([0, *counts]),
        edge_index=ends,
        fields=fields,
        split=_split(graphs, options),
        names=list(graph_of),
        node_names=_node_names(node_of, order, nodes),
        target=target,
        meta={"columns": {name: columns[name] for name in columns if name in fields}},
    )


def _sizes_at_fault(
    graphs: Table, graph_of: dict[str, int], sizes: list[int], limits: Limits
) -> list[Problem]:
    """Returns which graphs have no nodes, or too many."""
    problems = []
    for (name, graph), line in zip(graph_of.items(), graphs.lines, strict=True):
        try:
            limits.check("nodes", sizes[graph], f"graph '{name}': nodes")
        except LimitError as error:
            problems.append(Problem(graphs.file, str(error), line))
        if not sizes[graph]:
            problems.append(Problem(graphs.file, f"graph '{name}' has no nodes", line))
    return problems


def _check_ignored(names: Collection[str], nodes: Table, edges: Table) -> None:
    known = {*nodes.columns, *edges.columns} - {"graph", "node", "source", "target"}
    for name in names:
        if name not in known:
            raise DataError(unknown(f"ignored_columns: '{name}'", name, known))


def _node_names(
    node_of: dict[tuple[int, str], int], order: np.ndarray, nodes: Table
) -> list[str] | None:
    """Returns the names of all nodes by graph; None if each is the index of its node."""
    if all(name == str(index) for (_, name), index in node_of.items()):
        return None
    names = nodes.column("node")
    return [names[row] for row in order]


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
            problems.append(_twice(graphs, name, line))
        graph_of.setdefault(name, len(graph_of))
    return graph_of


def _graph_in(row: Rejected) -> str:
    return row.row.get("graph", "")


def _twice(graphs: Table, name: str, line: int) -> Problem:
    return Problem(graphs.file, f"graph '{name}' appears twice", line)


def _unlisted(table: Table, name: str, line: int) -> Problem:
    return Problem(table.file, f"graph '{name}' is not in the table 'graphs'", line)


def _nodes(
    nodes: Table, graph_of: dict[str, int], problems: list[Problem]
) -> tuple[np.ndarray, list[int], dict[tuple[int, str], int]]:
    """Returns the rows sorted by graph, the nodes per graph, and each node's index in its graph."""
    sizes = [0] * len(graph_of)
    node_of: dict[tuple[int, str], int] = {}
    graphs = []
    columns = nodes.column("graph"), nodes.column("node")
    for graph_name, name, line in zip(*columns, nodes.lines, strict=True):
        graph = graph_of.get(graph_name, -1)
        graphs.append(graph)
        if graph < 0:
            problems.append(_unlisted(nodes, graph_name, line))
        elif (graph, name) in node_of:
            reason = f"node '{name}' of graph '{graph_name}' appears twice"
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
    """Returns the edges sorted by graph, the edges per graph, and the table row of each edge."""
    counts = [0] * len(graph_of)
    graphs, ends = [], []
    columns = edges.column("graph"), edges.column("source"), edges.column("target")
    for graph_name, source, target, line in zip(*columns, edges.lines, strict=True):
        graph = graph_of.get(graph_name, -1)
        if graph < 0:
            problems.append(_unlisted(edges, graph_name, line))
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


def _feature_names(table: Table, skip: set[str]) -> list[str]:
    """Returns the feature columns sorted by name.

    The order of the columns in a table therefore does not matter to a trained model.
    """
    return sorted(name for name in table.columns if name not in skip)


def _features(
    table: Table, order: np.ndarray, names: list[str], level: Level, to_learn: bool
) -> Field:
    """Reads the feature columns: as integers if all cells are whole numbers, else as float32."""
    columns = {name: table.columns[name] for name in names}
    for name, cells in columns.items():
        if cells and all(parse_number(cell) is None for cell in cells):
            raise DataError(
                Problem(
                    table.file,
                    f"column '{name}' holds text, such as '{cells[0]}', but features are numbers; "
                    f"number its values, or leave it out with  --ignore {name}",
                    1,
                )
            )
    whole = all(is_whole(cell) for cells in columns.values() for cell in cells)
    dtype = np.dtype(np.int64 if whole else np.float32)
    read = read_whole if whole else read_number

    def row(index: int) -> list[float]:
        return [_named(name, read, cells[index]) for name, cells in columns.items()]

    values = _read_rows(table, row).reshape(len(table), len(columns))
    if to_learn and not whole:
        for name, column in zip(names, values.T, strict=True):
            if is_lost_in_single_precision(column):
                reason = f"column '{name}': all values are equal in single precision"
                raise DataError(Problem(table.file, f"{reason}; subtract a constant from them", 1))
    return Field(level, values.astype(dtype)[order], dtype)


def _weights(graphs: Table, name: str) -> Field:
    cells = graphs.column(name)
    values = _read_rows(graphs, lambda index: _named(name, read_weight, cells[index]))
    return Field("graph", values.astype(np.float32), np.dtype(np.float32))


def _named(name: str, read: Callable[[str], float], cell: str) -> float:
    with named(name):
        return read(cell)


def _read_rows(table: Table, read: Callable[[int], list[float] | float]) -> np.ndarray:
    """Returns the values of all rows; ``read`` gets the index of a row.

    Raises an error that lists all rows that cannot be read.
    """
    rows, problems = [], []
    for index, line in enumerate(table.lines):
        try:
            rows.append(read(index))
        except DataError as error:
            problems.append(Problem(table.file, str(error), line))
    if problems:
        raise DataError(problems)
    return np.array(rows)


def _target_level(graphs: Table, nodes: Table, options: ReadOptions) -> TargetLevel:
    """Returns whether the targets are columns of ``graphs`` or of ``nodes``."""
    for name in options.targets:
        if name in graphs.columns and name in nodes.columns:
            both = f"target '{name}': a column of both this table and {nodes.file}; rename one"
            raise DataError(Problem(graphs.file, both, 1))
    at_nodes = [name in nodes.columns for name in options.targets]
    if any(at_nodes) and not all(at_nodes):
        raise DataError("targets: must all be columns of graphs, or all columns of nodes")
    return "node" if any(at_nodes) else "graph"


def _both_ways(
    ends: np.ndarray, counts: list[int], fields: dict[str, Field]
) -> tuple[np.ndarray, list[int], dict[str, Field]]:
    """Inserts, right after each edge, its reverse with the same features.

    No reverse is added to a self-loop, or to an edge whose reverse is itself in the table.
    """
    graph = np.repeat(np.arange(len(counts)), counts)
    listed = set(zip(graph.tolist(), *ends.tolist(), strict=True))
    alone = [
        source != target and (number, target, source) not in listed
        for number, source, target in zip(graph.tolist(), *ends.tolist(), strict=True)
    ]
    keep = np.stack([np.ones(len(alone), dtype=bool), np.array(alone, dtype=bool)], axis=1)
    both = np.stack([ends, ends[::-1]], axis=2)[:, keep]
    if "edge_attr" in fields:
        field = fields["edge_attr"]
        values = np.repeat(field.values, keep.sum(1), axis=0)
        fields = {**fields, "edge_attr": Field("edge", values, field.dtype)}
    new_counts = np.bincount(np.repeat(graph, keep.sum(1)), minlength=len(counts))
    return both, new_counts.tolist(), fields


def _split(graphs: Table, options: ReadOptions) -> list[str | None] | None:
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
    return names
