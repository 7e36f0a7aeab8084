"""PyG graphs → packed arrays; every graph is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from eigenformer.data.errors import DataError, placed
from eigenformer.data.fields import Field, Level, graph_place
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.nearest import unknown

_KNOWN: dict[str, Level] = {"x": "node", "pos": "node", "edge_attr": "edge", "edge_weight": "edge"}
_LEVELS = ("node", "edge", "graph")


def pack_graphs(
    graphs: Iterable[Data],
    names: Sequence[str] | None,
    levels: Mapping[str, Level],
    limits: Limits = DEFAULT_LIMITS,
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
        with placed(place(index)):
            limits.check("nodes", size, "nodes")
        sizes.append(size)
        edges.append(edge_index)
    if sum(sizes) > np.iinfo(np.int64).max:
        raise DataError(f"{sum(sizes):,} nodes in all graphs do not fit into 64 bits")
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
        raise DataError(f"{place}: '{key}' {not_numbers(value)}")
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError):  # sparse, nested, or of a type missing in NumPy
        kind = f"{value.layout} tensor of {value.dtype}".replace("torch.", "")
        raise DataError(
            f"{place}: '{key}' is a {kind}; convert it to a dense float or long tensor"
        ) from None


def not_numbers(value: Any) -> str:
    """Returns the end of an error message: what an attribute holds instead of numbers."""
    numbers = (bool, int, float, complex, np.number, np.bool_, Tensor)
    odd = next((part for part in _flat(value) if not isinstance(part, numbers)), 0)
    if isinstance(odd, str):
        return f"holds text, such as '{odd}'; expected numbers: number its values, or leave it out"
    if odd is None:
        return "holds None; expected numbers: give every value, or leave it out"
    if not isinstance(odd, int):
        return f"holds a {type(odd).__name__}; expected numbers, or lists of them"
    large = next(
        (n for n in _flat(value) if isinstance(n, int) and not -(2**63) <= n < 2**63), None
    )
    if large is not None:
        return f"holds {large}, which does not fit into 64 bits: write it as a float"
    return f"is a {type(value).__name__} of different lengths; expected as many numbers everywhere"


def _flat(value: Any) -> Iterator[Any]:
    """Yields the entries of lists of lists."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
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
