"""PyG graphs → packed arrays; every graph is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.data.errors import DataError
from eigenformer.data.fields import Field, Level, graph_place
from eigenformer.nearest import unknown

if TYPE_CHECKING:
    import networkx as nx

_KNOWN: dict[str, Level] = {"x": "node", "pos": "node", "edge_attr": "edge", "edge_weight": "edge"}
_LEVELS = ("node", "edge", "graph")


def pack_graphs(
    graphs: Iterable[Data], names: Sequence[str] | None, levels: Mapping[str, Level]
) -> dict[str, Any]:
    """Returns the offsets, edges and fields of a :class:`GraphArchive` of these graphs."""
    for level in levels.values():
        if level not in _LEVELS:
            raise DataError(unknown(f"level '{level}'", level, _LEVELS))
    graphs = list(graphs)
    if names is not None and len(names) != len(graphs):
        raise DataError(f"names: got {len(names)} for {len(graphs)} graphs")

    def place(index: int) -> str:
        return graph_place(index, names)

    sizes, edges = [], []
    for index, data in enumerate(graphs):
        size, edge_index = _structure(data, place(index))
        sizes.append(size)
        edges.append(edge_index)
    counts = [edge_index.shape[1] for edge_index in edges]
    keys = _keys(graphs, place)
    fields = {}
    for key in keys:
        rows = [_rows(data[key], key, place(i)) for i, data in enumerate(graphs)]
        level = levels.get(key) or _level(key, rows, sizes, counts)
        fields[key] = _pack(key, level, rows, sizes, counts, place)
    return {
        "node_offsets": np.cumsum([0, *sizes]),
        "edge_offsets": np.cumsum([0, *counts]),
        "edge_index": np.concatenate([*edges, np.empty((2, 0), np.int64)], axis=1),
        "fields": fields,
    }


def of_networkx(graphs: Iterable[nx.Graph]) -> Iterator[Data]:
    """Converts networkx graphs to PyG graphs; node, edge and graph attributes become tensors.

    Without an attribute ``x``, the numbers of all other node attributes are its columns, in
    alphabetical order; without ``edge_attr``, the same holds for edges.
    """
    from torch_geometric.utils import from_networkx

    for index, graph in enumerate(graphs):
        try:
            data = from_networkx(graph)
            nodes = [name for _, names in graph.nodes(data=True) for name in names]
            edges = [name for *_, names in graph.edges(data=True) for name in names]
            _group(data, set(nodes), "x")
            # PyG renames an attribute of edges if nodes have one of the same name.
            _group(data, {f"edge_{n}" if n in nodes else n for n in set(edges)}, "edge_attr")
            yield data
        except AttributeError:
            reason = f"expected a networkx graph, got {type(graph).__name__}"
            raise DataError(f"graph {index}: {reason}") from None
        except ValueError as error:
            raise DataError(f"graph {index}: {error}") from None


def _group(data: Data, attributes: Iterable[str], target: str) -> None:
    """Makes one attribute of those that all nodes or all edges have, unless it is there already."""
    names = sorted(name for name in attributes if name not in ("y", "edge_y") and name in data)
    columns = [data[name] for name in names]
    if target in names or not columns or not all(isinstance(c, Tensor) for c in columns):
        return
    data[target] = torch.cat([column.reshape(len(column), -1) for column in columns], 1)
    for name in names:
        del data[name]


def _structure(data: Data, place: str) -> tuple[int, np.ndarray]:
    if not isinstance(data, Data):
        raise DataError(f"{place}: expected a PyG Data, got {type(data).__name__}")
    try:
        size = data.num_nodes
    except AttributeError as error:  # the graph comes from an altered file
        raise DataError(f"{place}: incomplete PyG Data ({error})") from None
    if not size:
        raise DataError(f"{place}: no nodes, or unknown number of nodes (no 'x', no 'num_nodes')")
    if data.edge_index is None:
        return int(size), np.empty((2, 0), np.int64)
    edge_index = _array(data.edge_index, "edge_index", place)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise DataError(f"{place}: edge_index has shape {edge_index.shape}, expected (2, edges)")
    if edge_index.size and edge_index.dtype.kind not in "iu":
        raise DataError(f"{place}: edge_index is {edge_index.dtype}, expected integers")
    return int(size), edge_index.astype(np.int64)


def _keys(graphs: Sequence[Data], place: Callable[[int], str]) -> list[str]:
    """Returns the names of the attributes, which must be the same in all graphs."""
    keys: list[str] = []
    for index, data in enumerate(graphs):
        names = [name for name in data.to_dict() if name not in ("edge_index", "num_nodes")]
        keys = keys if index else names
        if set(names) != set(keys):
            raise DataError(
                f"{place(index)}: has attributes {sorted(names)}, but graph 0 has {sorted(keys)}"
            )
    return keys


def _rows(value: Any, key: str, place: str) -> np.ndarray:
    if isinstance(value, str) and key not in (*_KNOWN, "y"):
        return Field.of_texts([value]).values
    array = _array(value, key, place)
    return array.reshape(1) if array.ndim == 0 else array


def _array(value: Any, key: str, place: str) -> np.ndarray:
    if isinstance(value, int | float | np.ndarray | np.number):
        # A Python float is a double, but PyG batches it as a tensor of the default type.
        value = torch.as_tensor(value)
    if not isinstance(value, Tensor):
        text = next((part for part in _flat(value) if isinstance(part, str)), None)
        what = f"is a {type(value).__name__}" if text is None else f"holds text, such as '{text}'"
        reason = f"'{key}' {what}; expected numbers: number its values, or leave it out"
        raise DataError(f"{place}: {reason}")
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError):  # sparse, nested, or of a type missing in NumPy
        kind = f"{value.layout} tensor of {value.dtype}".replace("torch.", "")
        raise DataError(
            f"{place}: '{key}' is a {kind}; convert it to a dense float or long tensor"
        ) from None


def _flat(value: Any) -> Iterator[Any]:
    """Yields the entries of lists of lists."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _level(key: str, rows: list[np.ndarray], sizes: list[int], counts: list[int]) -> Level:
    if key in _KNOWN:
        return _KNOWN[key]
    lengths = [len(row) for row in rows]
    if all(length == 1 for length in lengths):
        return "graph"
    if lengths == sizes:
        return "node"
    if lengths == counts:
        return "edge"
    return "graph"


def _pack(
    key: str,
    level: Level,
    rows: list[np.ndarray],
    sizes: list[int],
    counts: list[int],
    place: Callable[[int], str],
) -> Field:
    expected = {"node": sizes, "edge": counts, "graph": [1] * len(rows)}[level]
    if level == "graph":
        # PyG allows both [targets] and [1, targets]; an archive always has one row per graph.
        rows = [row if len(row) == 1 else row[None] for row in rows]
    first = rows[0]
    for index, row in enumerate(rows):
        if len(row) != expected[index]:
            raise DataError(
                f"{place(index)}: '{key}' has {len(row)} rows for {expected[index]} {level}s"
            )
        if row.shape[1:] != first.shape[1:]:
            raise DataError(
                f"{place(index)}: '{key}' has rows of shape {row.shape[1:]}, but those of "
                f"graph 0 have shape {first.shape[1:]}"
            )
        if row.dtype != first.dtype:
            raise DataError(f"{place(index)}: '{key}' is {row.dtype}, but {first.dtype} in graph 0")
    return Field(level, np.concatenate(rows), first.dtype)
