"""networkx graphs → PyG graphs: attributes become features, with the same names in all graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.data.checks import BEYOND_SINGLE
from eigenformer.data.conversion import not_numbers
from eigenformer.data.errors import DataError

if TYPE_CHECKING:
    import networkx as nx

_TARGETS = ("y", "edge_y")
_OF_PYG = ("edge_index", "num_nodes")
_TEXT = "which is not text: rename it"
_RESERVED = "a name that PyG uses: rename it, or leave it out"


@dataclass
class Features:
    """The attributes of the nodes, or of the edges, which are the same in all graphs.

    Args:
        owners: Whose attributes they are: ``nodes`` or ``edges``.
        grouped: The field that they become the columns of, unless one of them has this name.

    Attributes:
        first: The first graph that has owners.
        names: The names of the attributes there.
        columns: The names of the columns of the field; empty if it is an attribute itself.
        empty: The field of a graph without owners.
    """

    owners: str
    grouped: str
    first: int | None = None
    names: tuple[str, ...] = ()
    columns: list[str] = field(default_factory=list)
    empty: dict[str, Tensor] = field(default_factory=dict)

    def read(self, rows: Sequence[Mapping[Any, Any]], graph: int) -> dict[str, Tensor]:
        """Returns the fields of one graph. Raises an error if its attributes are others."""
        if not rows:
            return dict(self.empty)
        place = f"graph {graph}"
        for name in {name: None for row in rows for name in row}:
            if not isinstance(name, str):
                raise DataError(
                    f"{place}: an attribute of {self.owners} is named {name!r}, {_TEXT}"
                )
        if any(set(row) != set(rows[0]) for row in rows):
            raise DataError(f"{place}: Not all {self.owners} contain the same attributes")
        names = tuple(sorted(rows[0]))
        if self.first is None:
            self.first, self.names = graph, names
        if names != self.names:
            raise DataError(
                f"{place}: its {self.owners} have the attributes {_listed(names)}, but those of "
                f"graph {self.first} have {_listed(self.names)}"
            )
        found = {name: _tensor([row[name] for row in rows], name, place) for name in names}
        fields = self._fields(found, place)
        if not self.empty:
            self.empty = {name: values[:0] for name, values in fields.items()}
        return fields

    def _fields(self, found: dict[str, Tensor], place: str) -> dict[str, Tensor]:
        parts = {name: found[name] for name in found if name not in _TARGETS}
        if self.grouped in parts or not parts:
            for name in parts:
                if name in _OF_PYG:
                    raise DataError(
                        f"{place}: {self.owners} have an attribute '{name}', {_RESERVED}"
                    )
            return found
        flat = {name: values.reshape(len(values), -1) for name, values in parts.items()}
        self.columns = [
            column for name, values in flat.items() for column in _columns(name, values)
        ]
        left = {name: found[name] for name in found if name in _TARGETS}
        return {self.grouped: torch.cat([*flat.values()], 1), **left}


def of_networkx(graphs: Iterable[nx.Graph]) -> tuple[list[Data], dict[str, list[str]]]:
    """Returns networkx graphs as PyG graphs, and the names of the columns of their features.

    Without an attribute ``x``, the numbers of all other node attributes are its columns, in
    alphabetical order; without ``edge_attr``, the same holds for edges. Attributes of graphs become
    fields of the same names. A graph without edges gets an ``edge_attr`` without rows if others
    have one.
    """
    nodes, edges = Features("nodes", "x"), Features("edges", "edge_attr")
    converted = [_convert(graph, index, nodes, edges) for index, graph in enumerate(graphs)]
    for data in converted:  # those before the first graph with edges
        for name, values in edges.empty.items():
            if name not in data:
                data[name] = values
    columns = {part.grouped: part.columns for part in (nodes, edges) if part.columns}
    return converted, columns


def _convert(graph: nx.Graph, index: int, nodes: Features, edges: Features) -> Data:
    place = f"graph {index}"
    try:
        number = {node: i for i, node in enumerate(graph.nodes)}
        # Each edge of an undirected graph counts twice, once in each direction.
        links = list(graph.to_directed(as_view=True).edges(data=True))
    except AttributeError:
        raise DataError(f"{place}: expected a networkx graph, got {type(graph).__name__}") from None
    ends = [[number[source] for source, *_ in links], [number[end] for _, end, _ in links]]
    data = Data(edge_index=torch.tensor(ends, dtype=torch.long).reshape(2, -1))
    found = nodes.read([values for _, values in graph.nodes(data=True)], index)
    for name, values in found.items():
        data[name] = values
    for name, values in edges.read([values for *_, values in links], index).items():
        data[f"edge_{name}" if name in found else name] = values
    for name, value in graph.graph.items():
        if name in ("node_default", "edge_default"):
            continue
        if not isinstance(name, str):
            raise DataError(f"{place}: an attribute of the graph is named {name!r}, {_TEXT}")
        if name in _OF_PYG:
            raise DataError(f"{place}: has an attribute '{name}', {_RESERVED}")
        key = f"graph_{name}" if name in nodes.names else name
        # One text per graph is kept as it is.
        data[key] = value if isinstance(value, str) else _tensor(value, name, place)
    if data.x is None and data.pos is None:
        data.num_nodes = len(number)
    return data


def _tensor(value: Any, name: str, place: str) -> Tensor:
    try:
        if isinstance(value, list) and value and isinstance(value[0], Tensor):
            return torch.stack(value)
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            value = np.stack(value)
        tensor = torch.as_tensor(value)
    except Exception:  # PyTorch may raise anything
        raise DataError(f"{place}: '{name}' {not_numbers(value)}") from None
    if tensor.dtype == torch.float32 and tensor.isinf().any():
        wide = torch.as_tensor(value, dtype=torch.float64)
        if not wide.isinf().any():
            raise DataError(f"{place}: '{name}' holds {float(wide.abs().max()):g}, {BEYOND_SINGLE}")
    return tensor


def _columns(name: str, values: Tensor) -> list[str]:
    """Returns the names of the columns of an attribute, which may be a vector."""
    width = values.shape[1]
    return [name] if width == 1 else [f"{name}[{i}]" for i in range(width)]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
