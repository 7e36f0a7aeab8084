"""One on-disk format for any set of graphs, from a benchmark or from the user."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenformer.config.forms import check_form
from eigenformer.data.checks import (
    check_contents,
    check_parts,
    checked_indices,
    checked_offsets,
    plain_meta,
)
from eigenformer.data.errors import DamagedError, DataError, Problem, placed
from eigenformer.data.fields import (
    NO_SPLIT,
    SPLITS,
    Field,
    Level,
    narrow,
    narrow_type,
    number_splits,
    pack_text,
    packed_rows,
    unpack_text,
)
from eigenformer.data.statistics import Statistics, statistics
from eigenformer.data.store import MANIFEST, Store, check_mapped, open_store, write_store
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.nearest import unknown
from eigenformer.targets import Target

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, Dataset

_KIND = "graphs"
_META_FORM = {
    "fields": {str: {"level": str, "dtype": str}},
    "task": {"kind": str},
    "statistics": {
        **dict.fromkeys((field.name for field in dataclasses.fields(Statistics)), float),
        "directed": bool,
        "splits": [int],
    },
    "meta": {str: object},
}

_TYPES = {np.dtype(code).str: np.dtype(code) for code in "O?bBhHiIqQefd"}
"""The types of fields by the names that they are saved under: text, truth and numbers."""


def is_archive(path: str | Path) -> bool:
    """Returns whether a folder is a saved archive."""
    return os.path.isfile(os.path.join(path, MANIFEST))  # False if the path is too long


class GraphArchive:
    """A packed set of graphs with features, edges, targets, split, names and vocabulary.

    The arrays of all graphs are concatenated; ``node_offsets`` and ``edge_offsets`` give the start
    of each graph. Arrays on disk are memory-mapped, not loaded. An archive is never changed in
    place: methods like :meth:`with_split` return a new archive.

    Args:
        node_offsets: The first node of each graph, ``[graphs + 1]``.
        edge_offsets: The first edge of each graph, ``[graphs + 1]``.
        edge_index: The edges, ``[2, edges]``; nodes are numbered from 0 within each graph.
        fields: The attributes by name: ``x``, ``edge_attr``, ``y``, and any other.
        split: One entry per graph: a name in ``SPLITS`` or its index there, or None or
            ``NO_SPLIT`` (default: no graph has a split).
        names: One name per graph, for example its SMILES (default: no names).
        node_names: One name per node (default: nodes are numbered).
        target: The target to predict; None if there is none.
        meta: Any other metadata that JSON can represent: vocabulary, featuriser, origin.
    """

    def __init__(
        self,
        node_offsets: np.ndarray,
        edge_offsets: np.ndarray,
        edge_index: np.ndarray,
        fields: Mapping[str, Field],
        split: Sequence[str | None] | np.ndarray | None = None,
        names: Sequence[str] | None = None,
        target: Target | None = None,
        meta: Mapping[str, Any] | None = None,
        *,
        node_names: Sequence[str] | None = None,
        _written: bool = False,
    ) -> None:
        self.node_offsets = checked_offsets(node_offsets, "node_offsets", 1)
        self.edge_offsets = checked_offsets(edge_offsets, "edge_offsets", 0)
        self.edge_index = np.asarray(edge_index)
        self.fields = dict(fields)
        self.split = number_splits(np.full(len(self), NO_SPLIT) if split is None else split)
        self.names = names
        self.node_names = node_names
        self.target = target
        self.meta = plain_meta(meta or {})
        self._store: Store | None = None
        check_parts(self)
        if not _written:  # a saved archive was checked before it was written
            check_contents(self)

    def __len__(self) -> int:
        return len(self.node_offsets) - 1

    def __getitem__(self, index: int) -> Data:
        return self.graph(index)

    def __iter__(self) -> Iterator[Data]:
        return (self.graph(index) for index in range(len(self)))

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path='{self.path}'"
        return f"{type(self).__name__}({len(self)} graphs, fields={list(self.fields)}{where})"

    @property
    def path(self) -> Path | None:
        """The folder of the archive; None if it was not read from disk."""
        return None if self._store is None else self._store.path

    @property
    def num_nodes(self) -> np.ndarray:
        """The number of nodes per graph."""
        return np.diff(self.node_offsets)

    @property
    def num_edges(self) -> np.ndarray:
        """The number of directed edges per graph."""
        return np.diff(self.edge_offsets)

    @property
    def tells_sizes(self) -> bool:
        """Whether PyG can infer the number of nodes from the fields: only from ``x`` or ``pos``."""
        return any(name in self.fields for name in ("x", "pos"))

    @cached_property
    def structure(self) -> str:
        """A checksum of the nodes and edges of all graphs; features are not included."""
        return self.structure_hash().hexdigest()

    def structure_hash(self) -> hashlib._Hash:
        """Returns :attr:`structure` as a hash object that can be updated further."""
        self.check_files()
        content = hashlib.sha256()
        # Hash the on-disk form, so that the checksum is the same before saving and after reading.
        for array in (self.node_offsets, self.edge_offsets, narrow(self.edge_index)):
            content.update(repr((array.shape, array.dtype.str)).encode())
            for row in np.atleast_2d(array):
                content.update(np.ascontiguousarray(row).data)
        return content

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics of the graphs, nodes and edges."""
        return statistics(self)

    def graph(self, index: int) -> Data:
        """Returns one graph as PyG ``Data``."""
        import torch
        from torch_geometric.data import Data

        if not -len(self) <= index < len(self):
            raise IndexError(f"graph index {index} is out of range for {len(self)} graphs")
        self.check_files()
        index %= len(self)
        edges = slice(*self.edge_offsets[index : index + 2])
        edge_index = self.edge_index[:, edges].astype(np.int64)
        data = Data(edge_index=torch.from_numpy(edge_index))
        for name, field in self.fields.items():
            values = field.values[self._rows(field.level, index)].astype(field.dtype)
            data[name] = values[0] if field.is_text else torch.from_numpy(values)
        if not self.tells_sizes:
            data.num_nodes = int(self.num_nodes[index])
        return data

    def check_files(self) -> None:
        """Raises an error if a mapped file was truncated: reading it would end the process."""
        check_mapped(self.edge_index)
        for field in self.fields.values():
            check_mapped(field.values)

    def to_data_list(self) -> list[Data]:
        """Returns all graphs as a list of PyG ``Data``."""
        return list(self)

    def indices(self, split: str) -> np.ndarray:
        """Returns the indices of the graphs of one split, in ascending order."""
        if split not in SPLITS:
            raise DataError(unknown(f"split '{split}'", split, SPLITS))
        if len(self) and (self.split == NO_SPLIT).all():
            raise DataError(
                "the graphs have no split; give them one: --split-by random, or in Python "
                "archive.with_split(random_split(len(archive)))"
            )
        return np.flatnonzero(self.split == SPLITS.index(split))

    def subset(self, indices: Iterable[int]) -> GraphArchive:
        """Returns an archive of the selected graphs, in the given order.

        Also used to select the graphs of a split.
        """
        chosen = checked_indices(indices, len(self))
        nodes, node_offsets = packed_rows(self.node_offsets, chosen)
        edges, edge_offsets = packed_rows(self.edge_offsets, chosen)
        rows = {"node": nodes, "edge": edges, "graph": chosen}
        return GraphArchive(
            node_offsets=node_offsets,
            edge_offsets=edge_offsets,
            edge_index=self.edge_index[:, edges],
            fields={
                name: replace(field, values=field.values[rows[field.level]])
                for name, field in self.fields.items()
            },
            split=self.split[chosen],
            names=None if self.names is None else [self.names[i] for i in chosen],
            node_names=None if self.node_names is None else [self.node_names[i] for i in nodes],
            target=self.target,
            meta=self.meta,
        )

    def with_split(self, split: Sequence[str | None] | np.ndarray) -> GraphArchive:
        """Returns an archive of the same graphs with another split."""
        return self._with(split=split)

    def with_target(self, target: Target | None) -> GraphArchive:
        """Returns an archive of the same graphs with another target."""
        return self._with(target=target)

    def with_field(self, name: str, field: Field) -> GraphArchive:
        """Returns an archive of the same graphs with one attribute added or replaced."""
        return self._with(fields={**self.fields, name: field})

    def _with(self, **changes: Any) -> GraphArchive:
        names = ("node_offsets", "edge_offsets", "edge_index", "fields", "split", "names")
        parts = {name: getattr(self, name) for name in (*names, "node_names", "target", "meta")}
        other = GraphArchive(**{**parts, **changes}, _written=True)
        if "structure" in vars(self):  # the graphs are the same, so is their checksum
            other.structure = self.structure
        return other

    @classmethod
    def from_data_list(
        cls,
        graphs: Iterable[Data],
        split: Sequence[str | None] | np.ndarray | None = None,
        names: Sequence[str] | None = None,
        target: Target | None = None,
        levels: Mapping[str, Level] | None = None,
        meta: Mapping[str, Any] | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> GraphArchive:
        """Creates an archive from PyG graphs: a list, a PyG dataset, or any iterable of ``Data``.

        Whether an attribute belongs to nodes, edges or graphs is inferred from its size. If the
        size is ambiguous, set the level of the attribute in ``levels``.
        """
        from eigenformer.data.conversion import pack_graphs

        packed = pack_graphs(graphs, names, levels or {}, limits)
        return cls(**packed, split=split, names=names, target=target, meta=meta)

    @classmethod
    def from_dataset(cls, *parts: Dataset, **arguments: Any) -> GraphArchive:
        """Creates an archive from one PyG dataset, or from three: train, val and test."""
        if len(parts) not in (1, len(SPLITS)):
            raise DataError(f"expected one dataset, or {len(SPLITS)} ({', '.join(SPLITS)})")
        if len(parts) > 1:
            sizes = [len(part) for part in parts]
            arguments["split"] = np.repeat(np.arange(len(parts), dtype=np.uint8), sizes)
        return cls.from_data_list((graph for part in parts for graph in part), **arguments)

    @classmethod
    def from_networkx(cls, graphs: Iterable[nx.Graph], **arguments: Any) -> GraphArchive:
        """Creates an archive from networkx graphs.

        Attributes of nodes become the columns of ``x`` in alphabetical order, unless there is an
        ``x`` already; attributes of edges become ``edge_attr`` in the same way. ``y`` is the
        target. Attributes of graphs become fields. All graphs must have the same attributes; the
        names of the columns are kept in ``meta``, and ``predict`` compares them.
        """
        from eigenformer.data.networkx_graphs import of_networkx

        graphs = list(graphs)
        converted, columns = of_networkx(graphs)
        if columns:
            arguments["meta"] = {"columns": columns, **(arguments.get("meta") or {})}
        archive = cls.from_data_list(converted, **arguments)
        names = [[str(node) for node in graph] for graph in graphs]
        if all(part == [str(i) for i in range(len(part))] for part in names):
            return archive
        archive = archive._with(node_names=[name for part in names for name in part])
        check_contents(archive)  # the names, too
        return archive

    def save(self, path: str | Path) -> GraphArchive:
        """Writes the archive to a folder and returns the archive opened from there.

        The folder is written completely or not at all.
        """
        arrays = {
            "node_offsets": self.node_offsets,
            "edge_offsets": self.edge_offsets,
            "edge_index": self.edge_index,
            "split": self.split,
        }
        types = {"edge_index": narrow_type(self.edge_index)}
        if self.names is not None:
            arrays["names"], arrays["name_offsets"] = pack_text(self.names)
        if self.node_names is not None:
            arrays["node_names"], arrays["node_name_offsets"] = pack_text(self.node_names)
        for name, field in self.fields.items():
            key = f"field.{name}"
            if field.is_text:
                arrays[key], arrays[f"{key}.offsets"] = pack_text(field.values.tolist())
            else:
                arrays[key], types[key] = field.values, narrow_type(field.values)
        meta = {
            "fields": {
                name: {"level": field.level, "dtype": field.dtype.str}
                for name, field in self.fields.items()
            },
            "task": _stored_target(self.target),
            "statistics": asdict(self.statistics),
            "meta": self.meta,
        }
        store = write_store(Path(path), _KIND, arrays, meta, types)
        return GraphArchive._from_store(store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        verify: bool = False,
        *,
        check: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> GraphArchive:
        """Opens a saved archive.

        The sizes and modification times of its files are checked.

        Args:
            path: The folder of the archive.
            verify: Whether to compare all checksums.
            check: Whether to check every edge, number and name, and the limits, for an archive
                made by others.
            limits: How large a graph may be.
        """
        archive = cls._from_store(open_store(Path(path), _KIND, verify), check)
        if check and len(archive):
            with placed(path):
                limits.check("nodes", int(archive.num_nodes.max()), "nodes of a graph")
        return archive

    @classmethod
    def _from_store(cls, store: Store, check: bool = False) -> GraphArchive:
        try:
            check_form(store.meta, _META_FORM)
            archive = cls(**_parts(store), _written=not check)
            counts = store.meta["statistics"]
            archive.statistics = Statistics(**{**counts, "splits": tuple(counts["splits"])})
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise DamagedError(Problem(str(store.path), f"not an archive: {error}")) from None
        archive._store = store
        return archive

    def _rows(self, level: Level, index: int) -> slice:
        if level == "graph":
            return slice(index, index + 1)
        offsets = self.node_offsets if level == "node" else self.edge_offsets
        return slice(*offsets[index : index + 2])


def _parts(store: Store) -> dict[str, Any]:
    """Returns the constructor arguments of a saved archive."""
    arrays, target = store.arrays, _read_target(store.meta["task"])
    stored = ("node_offsets", "edge_offsets", "edge_index", "split")
    parts: dict[str, Any] = {name: arrays[name] for name in stored}
    fields = {}
    for name, record in store.meta["fields"].items():
        if record["dtype"] not in _TYPES:  # NumPy would evaluate the text
            raise ValueError(f"fields.{name}.dtype: {record['dtype'][:40]!r} is not a type")
        values, dtype = arrays[f"field.{name}"], _TYPES[record["dtype"]]
        if dtype.kind == "O":
            offsets = arrays[f"field.{name}.offsets"]
            fields[name] = Field.of_texts(list(unpack_text(values, offsets)))
        else:
            fields[name] = Field(record["level"], values, dtype)
    for key in ("name", "node_name"):
        if f"{key}s" in arrays:
            parts[f"{key}s"] = unpack_text(arrays[f"{key}s"], arrays[f"{key}_offsets"])
    return {**parts, "fields": fields, "target": target, "meta": store.meta["meta"]}


def _stored_target(target: Target | None) -> dict[str, Any]:
    """Returns a target as it is saved.

    Properties that depend on a training set, such as units, are not saved.
    """
    if target is None:
        return {"level": "graph", "kind": "none", "num_outputs": 0, "names": []}
    return {name: getattr(target, name) for name in ("level", "kind", "num_outputs", "names")}


def _read_target(record: dict[str, Any]) -> Target | None:
    return None if record["kind"] == "none" else Target.from_dict(record, "task")
