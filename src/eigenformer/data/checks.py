"""Checks of the contents of an archive: invalid graphs are rejected, whatever their origin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenformer.config.forms import FormError, check_form
from eigenformer.config.json_text import parse_json
from eigenformer.data.errors import DataError
from eigenformer.data.fields import Field, graph_place

if TYPE_CHECKING:
    from eigenformer.data.archive import GraphArchive

# What the package itself puts into the metadata of an archive. All else is the user's.
_META_FORM = {
    "featurizer?": (str, None),
    "columns?": {str: [str]},
    "rejected?": [{"line": (int, None), "reason": str, "row": {str: object}}],
    "origin?": {
        "own?": str,
        "benchmark?": str,
        "settings?": {str: object},
        "inputs?": {str: str},
        "stamps?": {str: [int]},
    },
}
BEYOND_SINGLE = "which exceeds single precision, at most 3.4e38"
_OURS = ("num_nodes", "ptr", "eigenvalues", "eigenvectors", "num_frequencies")


def checked_offsets(offsets: Any, name: str, least: int) -> np.ndarray:
    """Returns the offsets as int64.

    Raises an error unless they are integers that start at 0 and give each graph at least ``least``
    rows.
    """
    array = np.asarray(offsets)
    if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array) or array[0] != 0:
        raise DataError(f"{name}: expected a 1-D array of integers that starts with 0")
    array = array.astype(np.int64)  # a copy: truncating the file of a mapped one changes nothing
    short = np.flatnonzero(np.diff(array) < least)
    if len(short):
        count = array[short[0] + 1] - array[short[0]]
        raise DataError(
            f"{name}: graph {short[0]} would have {count} rows, expected at least {least}"
        )
    return array


def checked_indices(indices: Iterable[int] | np.ndarray, count: int) -> np.ndarray:
    """Returns indices into ``count`` graphs as non-negative integers.

    Negative indices count from the end; a boolean mask selects the graphs where it is True.
    """
    array = np.asarray(indices if isinstance(indices, np.ndarray | Sequence) else list(indices))
    if array.dtype.kind == "b":
        if array.shape != (count,):
            raise DataError(f"indices: got a mask of shape {array.shape} for {count} graphs")
        return np.flatnonzero(array)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise DataError(f"indices: expected a 1-D array of integers, got {array.dtype}")
    array = array.astype(np.int64)
    outside = array[(array < -count) | (array >= count)]
    if len(outside):
        raise IndexError(f"graph index {outside[0]} is out of range for {count} graphs")
    return np.where(array < 0, array + count, array)


def plain_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Returns metadata as plain JSON values; NumPy numbers and arrays are converted."""
    try:
        plain = parse_json(json.dumps(dict(meta), default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"meta: cannot be written as JSON ({error})") from None
    try:
        check_form(plain, _META_FORM, "meta")
    except FormError as error:
        raise DataError(str(error)) from None
    return plain


def check_parts(archive: GraphArchive) -> None:
    """Raises an error unless all parts have valid types and matching sizes.

    The values of the fields and edges are not read.
    """
    rows = {
        "node": int(archive.node_offsets[-1]),
        "edge": int(archive.edge_offsets[-1]),
        "graph": len(archive),
    }
    if len(archive.edge_offsets) != len(archive.node_offsets):
        count = len(archive.edge_offsets) - 1
        raise DataError(f"edge_offsets: for {count} graphs, but node_offsets: for {len(archive)}")
    edges = archive.edge_index
    if edges.shape != (2, rows["edge"]):
        shape = tuple(edges.shape)
        raise DataError(
            f"edge_index: got shape {shape}, but the offsets require (2, {rows['edge']})"
        )
    if edges.dtype.kind not in "iu":
        raise DataError(f"edge_index: expected integers, got {edges.dtype}")
    for name, field in archive.fields.items():
        _check_name(name)
        _check_type(name, field)
        if len(field.values) != rows[field.level]:
            count = len(field.values)
            raise DataError(f"{name}: {count} rows for {rows[field.level]} {field.level}s")
    for name, part in (("split", archive.split), ("names", archive.names)):
        if part is not None and len(part) != len(archive):
            raise DataError(f"{name}: {len(part)} entries for {len(archive)} graphs")
    if archive.node_names is not None and len(archive.node_names) != rows["node"]:
        raise DataError(f"node_names: {len(archive.node_names)} entries for {rows['node']} nodes")


def check_contents(archive: GraphArchive) -> None:
    """Raises an error if an edge leads to a missing node, or if a number or text is invalid.

    For edges and numbers, the message names the first graph at fault.
    """
    _check_edges(archive)
    texts = {name: field.values for name, field in archive.fields.items() if field.is_text}
    named = {"names": archive.names or (), "node_names": archive.node_names or ()}
    for name, part in {**named, **texts}.items():
        for text in part:
            if not isinstance(text, str):
                raise DataError(f"{name}: expected text, got {text!r}")
            if not text.isascii() and not _is_utf8(text):
                raise DataError(f"{name}: {text!a} is not valid UTF-8; rename it")
    offsets = {
        "node": archive.node_offsets,
        "edge": archive.edge_offsets,
        "graph": np.arange(len(archive) + 1),
    }
    for name, field in archive.fields.items():
        if field.values.dtype.kind != "f":
            continue
        # NaN marks a missing target. NaN in other fields and infinity in any field are errors.
        bad = np.isinf(field.values) if name in ("y", "descriptors") else ~np.isfinite(field.values)
        if bad.any():
            row = np.flatnonzero(bad.reshape(len(bad), -1).any(1))[0]
            graph = int(np.searchsorted(offsets[field.level], row, side="right")) - 1
            where = graph_place(graph, archive.names)
            raise DataError(f"{where}: '{name}' holds a NaN or an infinite value")
        if field.values.dtype.itemsize > 4 and name in ("x", "edge_attr", "descriptors"):
            _check_single(archive, name, field, offsets[field.level])


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_single(archive: GraphArchive, name: str, field: Field, offsets: np.ndarray) -> None:
    """Raises an error if a feature is beyond the numbers that a model computes with."""
    rows = field.values.reshape(len(field.values), -1)
    large = (np.abs(rows) > float(np.finfo(np.float32).max)).any(1)
    if large.any():
        row = int(np.flatnonzero(large)[0])
        where = graph_place(int(np.searchsorted(offsets, row, side="right")) - 1, archive.names)
        value = np.nanmax(np.abs(rows[row]))
        raise DataError(f"{where}: '{name}' holds {value:g}, {BEYOND_SINGLE}")


def _check_edges(archive: GraphArchive) -> None:
    busy = np.flatnonzero(archive.num_edges)
    sizes, starts = archive.num_nodes[busy], archive.edge_offsets[busy]
    for row in archive.edge_index if len(busy) else ():
        outside = np.minimum.reduceat(row, starts) < 0
        outside |= np.maximum.reduceat(row, starts) >= sizes
        if outside.any():
            graph = int(busy[np.flatnonzero(outside)[0]])
            edges = archive.edge_index[:, slice(*archive.edge_offsets[graph : graph + 2])]
            size = int(archive.num_nodes[graph])
            column = np.flatnonzero(((edges < 0) | (edges >= size)).any(0))[0]
            raise DataError(
                f"{graph_place(graph, archive.names)}: edge {edges[:, column].tolist()} (column "
                f"{column}) leads to a missing node; the graph has nodes 0 to {size - 1}"
            )


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w +()-]*", name):
        raise DataError(f"attribute {name!r}: expected a name of letters, digits and _")
    if name in _OURS:
        raise DataError(f"attribute '{name}': is computed by Eigenformer; leave it out")
    # PyG increments or concatenates attributes with these names differently in a batch.
    if name == "face" or "index" in name or "batch" in name:
        raise DataError(
            f"attribute '{name}': PyG treats names with 'index', 'batch' or 'face' as node "
            f"indices, which an archive stores for edges only; rename it, or leave it out"
        )


def _check_type(name: str, field: Field) -> None:
    found, wanted = field.values.dtype, field.dtype
    if field.is_text and found == wanted and field.level == "graph" and field.values.ndim == 1:
        return
    for dtype in (found, wanted):
        if dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:
            raise DataError(f"attribute '{name}': {dtype} cannot be stored in an archive")
    if not np.can_cast(found, wanted, "same_kind"):
        raise DataError(f"attribute '{name}': {found} cannot be read as {wanted}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__}: {value!r}")
