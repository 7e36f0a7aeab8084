"""Reads graphs to predict for. A graph that cannot be read keeps its place, with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from eigenformer.config import InputFormat, ReadOptions
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.graph_tables import GraphTables
from eigenformer.data.reading import form_of, load_data_file, read_own
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits

if TYPE_CHECKING:
    from torch_geometric.data import Data

Which = TypeVar("Which", int, str)
_PLACE = re.compile(r"graph \d+( \('.*?'\))?: ")


@dataclass(frozen=True, eq=False)
class EachGraph:
    """The graphs of an input, in its order.

    Args:
        names: The name of each graph.
        reasons: Why each graph cannot be read; empty for those in the archive.
        archive: The graphs that can be read.
    """

    names: Sequence[str]
    reasons: Sequence[str]
    archive: GraphArchive

    @classmethod
    def whole(cls, archive: GraphArchive) -> EachGraph:
        """Returns an archive of which every graph can be used."""
        names = archive.names or [str(i) for i in range(len(archive))]
        return cls(names, [""] * len(archive), archive)


def read_each_graph(
    path: Path, expected: InputFormat, limits: Limits = DEFAULT_LIMITS
) -> EachGraph:
    """Reads graphs in any form, without their targets.

    Raises an error if no graph can be read, or if what is wrong belongs to no graph.

    Args:
        path: The archive or the folder.
        expected: What the model needs to know about tables.
        limits: How large the files may be.
    """
    form = form_of(path)
    if form == "archive":
        return _each_of_archive(path, limits)
    if form == "tables":
        return _each_of_tables(path, expected, limits)
    if form == "graphs":
        return _each_of_files(path, limits)
    return EachGraph.whole(read_own(path, limits=limits).archive)


def _each_of_archive(path: Path, limits: Limits) -> EachGraph:
    try:
        return EachGraph.whole(GraphArchive.open(path, check=True, limits=limits))
    except DataError as error:
        archive = GraphArchive.open(path)  # raises an error again if it is damaged as a whole

        def check(graph: int) -> None:
            limits.check("nodes", int(archive.num_nodes[graph]), "nodes")
            archive.subset([graph])

        reasons = [_reason(check, graph) for graph in range(len(archive))]
        good = [graph for graph, reason in enumerate(reasons) if not reason]
        if not good or len(good) == len(archive):
            raise error
        return EachGraph(EachGraph.whole(archive).names, reasons, archive.subset(good))


def _each_of_tables(path: Path, expected: InputFormat, limits: Limits) -> EachGraph:
    options = ReadOptions(undirected=expected.undirected)
    tables = GraphTables.read(path, limits, keep_bad=True)
    try:
        return EachGraph.whole(tables.archive(options, expected, limits))
    except DataError as error:
        if tables.has_orphans():
            raise
        known, names, only = tables.rejected(), tables.names(), tables.split_up()

        def check(name: str) -> None:
            if name in known:
                raise DataError(known[name])
            only([name]).archive(options, expected, limits)

        reasons = [_reason(check, name) for name in names]
        good = [name for name, reason in zip(names, reasons, strict=True) if not reason]
        if not good or len(good) == len(names):
            raise error
        return EachGraph(names, reasons, only(good).archive(options, expected, limits))


def _each_of_files(path: Path, limits: Limits) -> EachGraph:
    """Reads a folder of ``.pt`` files, of which some may be damaged."""
    names: list[str] = []
    read: list[Data | DataError] = []
    for file in sorted(path.glob("*.pt")):
        try:
            for name, data in load_data_file(file, limits):
                names.append(name)
                read.append(_without_target(data))
        except DataError as error:
            names.append(file.stem.encode("utf-8", "backslashreplace").decode())
            read.append(error)
    if not names:
        raise DataError(Problem(str(path), "no graphs in its .pt files"))
    graphs = [part for part in read if not isinstance(part, DataError)]
    forms = Counter(map(_form, graphs)).most_common(1)

    def check(place: int) -> None:
        part = read[place]
        if isinstance(part, DataError):
            raise part
        GraphArchive.from_data_list([part], limits=limits)
        if _form(part) != forms[0][0]:
            raise DataError(f"has {_form(part)}, but most graphs have {forms[0][0]}")

    fault = next((part for part in read if isinstance(part, DataError)), None)
    if fault is None:
        try:
            archive = GraphArchive.from_data_list(graphs, names=names, limits=limits)
            return EachGraph.whole(archive)
        except DataError as error:
            fault = error
    reasons = [_reason(check, place) for place in range(len(names))]
    good = [place for place, reason in enumerate(reasons) if not reason]
    if not good or len(good) == len(names):
        raise fault
    kept = [part for place in good if not isinstance(part := read[place], DataError)]
    archive = GraphArchive.from_data_list(kept, names=[names[i] for i in good], limits=limits)
    return EachGraph(names, reasons, archive)


def _reason(check: Callable[[Which], None], which: Which) -> str:
    """Returns in one line why a graph cannot be read; empty if it can."""
    try:
        check(which)
    except (DataError, LimitError) as error:
        problems = error.problems if isinstance(error, DataError) else ()
        reason = str(problems[0]) if problems else str(error)
        return _PLACE.sub("", " ".join(reason.splitlines()), count=1)
    return ""


def _without_target(data: Data) -> Data:
    if "y" in data:
        del data["y"]
    return data


def _form(data: Data) -> str:
    """Returns the attributes of a graph with their types and widths, as a phrase."""
    import torch

    parts = []
    for name, value in sorted(data.to_dict().items()):
        if isinstance(value, torch.Tensor) and name != "edge_index":
            width = "×".join(map(str, value.shape[1:])) or "1"
            parts.append(f"{name} ({str(value.dtype).removeprefix('torch.')}, {width})")
        elif name not in ("edge_index", "num_nodes"):
            parts.append(name)
    return ", ".join(parts) or "no attributes"
