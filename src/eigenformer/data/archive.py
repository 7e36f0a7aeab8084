"""One plain on-disk form for any set of graphs: a benchmark's or the user's."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eigenformer.data.errors import DataError
from eigenformer.data.fields import NO_SPLIT, SPLITS, Field, Level, Task, number_splits, packed_rows
from eigenformer.data.packing import narrow, pack_text, unpack_text
from eigenformer.data.statistics import Statistics, statistics
from eigenformer.data.store import Store, open_store, write_store
from eigenformer.nearest import unknown

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, Dataset

_KIND = "graphs"


class GraphArchive:
    """A set of graphs: features, edges, targets, split, names and vocabulary, packed.

    The arrays of all graphs lie one after the other; ``node_offsets`` and ``edge_offsets`` say
    where each graph begins. Read from disk they are mapped, not loaded. An archive is never
    changed: what would change it returns another.

    Args:
        node_offsets: ``[graphs + 1]``.
        edge_offsets: ``[graphs + 1]``.
        edge_index: ``[2, edges]``, numbered from 0 within each graph.
        fields: The attributes, by name: ``x``, ``edge_attr``, ``y``, and any other.
        split: For each graph a place in ``SPLITS``, or ``NO_SPLIT`` (default: none has one).
        names: A name for each graph, for example its SMILES (default: none).
        task: What is to be predicted.
        meta: Anything else that fits JSON: vocabulary, featuriser, where it came from.
    """

    def __init__(
        self,
        node_offsets: np.ndarray,
        edge_offsets: np.ndarray,
        edge_index: np.ndarray,
        fields: Mapping[str, Field],
        split: np.ndarray | None = None,
        names: Sequence[str] | None = None,
        task: Task | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.node_offsets = np.asarray(node_offsets, dtype=np.int64)
        self.edge_offsets = np.asarray(edge_offsets, dtype=np.int64)
        self.edge_index = edge_index
        self.fields = dict(fields)
        count = len(self.node_offsets) - 1
        self.split = np.full(count, NO_SPLIT, np.uint8) if split is None else np.asarray(split)
        self.names = names
        self.task = Task() if task is None else task
        self.meta = dict(meta or {})
        self._store: Store | None = None
        self._check_shapes()

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
        """Its folder, where it was read from one."""
        return None if self._store is None else self._store.path

    @property
    def num_nodes(self) -> np.ndarray:
        """Nodes of each graph."""
        return np.diff(self.node_offsets)

    @property
    def num_edges(self) -> np.ndarray:
        """Directed edges of each graph."""
        return np.diff(self.edge_offsets)

    @property
    def tells_sizes(self) -> bool:
        """Whether a graph's fields tell PyG how many nodes it has; other names do not."""
        return any(name in self.fields for name in ("x", "pos"))

    @cached_property
    def statistics(self) -> Statistics:
        """Counts of its graphs, nodes and edges."""
        return statistics(self)

    def graph(self, index: int) -> Data:
        """One graph as PyG ``Data``."""
        import torch
        from torch_geometric.data import Data

        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        index %= len(self)
        edges = slice(*self.edge_offsets[index : index + 2])
        edge_index = self.edge_index[:, edges].astype(np.int64)
        data = Data(edge_index=torch.from_numpy(edge_index))
        for name, field in self.fields.items():
            values = field.values[self._rows(field.level, index)].astype(field.dtype)
            data[name] = torch.from_numpy(values)
        if not self.tells_sizes:
            data.num_nodes = int(self.num_nodes[index])
        return data

    def to_data_list(self) -> list[Data]:
        """All graphs as PyG ``Data``."""
        return list(self)

    def indices(self, split: str) -> np.ndarray:
        """The graphs of one split, in order."""
        if split not in SPLITS:
            raise DataError(unknown(f"split '{split}'", split, SPLITS))
        return np.flatnonzero(self.split == SPLITS.index(split))

    def subset(self, indices: Iterable[int]) -> GraphArchive:
        """An archive of some of the graphs, in the order given; also used to slice by split."""
        chosen = np.asarray(list(indices), dtype=np.int64)
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
            task=self.task,
            meta=self.meta,
        )

    def with_split(self, split: np.ndarray) -> GraphArchive:
        """The same graphs with another split."""
        return self._with(split=split)

    def with_task(self, task: Task) -> GraphArchive:
        """The same graphs with another task."""
        return self._with(task=task)

    def _with(self, **changes: Any) -> GraphArchive:
        names = ("node_offsets", "edge_offsets", "edge_index", "fields", "split", "names", "task")
        parts = {name: getattr(self, name) for name in (*names, "meta")}
        return GraphArchive(**{**parts, **changes})

    @classmethod
    def from_data_list(
        cls,
        graphs: Iterable[Data],
        split: Sequence[str | None] | np.ndarray | None = None,
        names: Sequence[str] | None = None,
        task: Task | None = None,
        levels: Mapping[str, Level] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GraphArchive:
        """Takes in PyG graphs: a list, a PyG dataset, or anything that yields ``Data``.

        Which attributes belong to nodes, edges or graphs is read off their sizes; ``levels``
        says it where sizes cannot.
        """
        from eigenformer.data.conversion import pack_graphs

        packed = pack_graphs(graphs, names, levels or {})
        numbers = split if isinstance(split, np.ndarray) or split is None else number_splits(split)
        return cls(**packed, split=numbers, names=names, task=task, meta=meta)

    @classmethod
    def from_dataset(cls, *parts: Dataset, **arguments: Any) -> GraphArchive:
        """Takes in a PyG dataset, or three of them: train, val and test."""
        if len(parts) not in (1, len(SPLITS)):
            raise DataError(f"give one dataset, or {len(SPLITS)} ({', '.join(SPLITS)})")
        if len(parts) > 1:
            sizes = [len(part) for part in parts]
            arguments["split"] = np.repeat(np.arange(len(parts), dtype=np.uint8), sizes)
        return cls.from_data_list((graph for part in parts for graph in part), **arguments)

    @classmethod
    def from_networkx(cls, graphs: Iterable[nx.Graph], **arguments: Any) -> GraphArchive:
        """Takes in networkx graphs; node, edge and graph attributes become fields."""
        from torch_geometric.utils import from_networkx

        return cls.from_data_list((from_networkx(graph) for graph in graphs), **arguments)

    def save(self, path: str | Path) -> GraphArchive:
        """Writes the archive as a folder, all of it or nothing, and returns it as read back."""
        arrays = {
            "node_offsets": self.node_offsets,
            "edge_offsets": self.edge_offsets,
            "edge_index": narrow(self.edge_index),
            "split": self.split,
            **{f"field.{name}": narrow(field.values) for name, field in self.fields.items()},
        }
        if self.names is not None:
            arrays["names"], arrays["name_offsets"] = pack_text(self.names)
        meta = {
            "fields": {
                name: {"level": field.level, "dtype": field.dtype.str}
                for name, field in self.fields.items()
            },
            "task": asdict(self.task),
            "statistics": asdict(self.statistics),
            "meta": self.meta,
        }
        store = write_store(Path(path), _KIND, arrays, meta)
        return GraphArchive._from_store(store)

    @classmethod
    def open(cls, path: str | Path, verify: bool = True) -> GraphArchive:
        """Opens an archive. ``verify`` compares every checksum before anything is believed."""
        return cls._from_store(open_store(Path(path), _KIND, verify))

    @classmethod
    def _from_store(cls, store: Store) -> GraphArchive:
        arrays = store.arrays
        names = None
        if "names" in arrays:
            names = unpack_text(arrays["names"], arrays["name_offsets"])
        fields = {
            name: Field(record["level"], arrays[f"field.{name}"], np.dtype(record["dtype"]))
            for name, record in store.meta["fields"].items()
        }
        task = store.meta["task"]
        archive = cls(
            arrays["node_offsets"],
            arrays["edge_offsets"],
            arrays["edge_index"],
            fields,
            arrays["split"],
            names,
            Task(**{**task, "names": tuple(task["names"])}),
            store.meta["meta"],
        )
        archive._store = store
        counts = store.meta["statistics"]
        archive.statistics = Statistics(**{**counts, "splits": tuple(counts["splits"])})
        return archive

    def equals(self, other: GraphArchive) -> bool:
        """Whether two archives hold the same graphs, down to the type of every attribute."""
        if list(self.fields) != list(other.fields) or self.task != other.task:
            return False
        pairs = [
            (self.node_offsets, other.node_offsets),
            (self.edge_offsets, other.edge_offsets),
            (self.edge_index, other.edge_index),
            (self.split, other.split),
        ]
        for name, field in self.fields.items():
            if (field.level, field.dtype) != (other.fields[name].level, other.fields[name].dtype):
                return False
            pairs.append((field.values, other.fields[name].values))
        same = all(a.shape == b.shape and _same(a, b) for a, b in pairs)
        mine, theirs = self.names, other.names
        if mine is not None and theirs is not None:
            same = same and list(mine) == list(theirs)
        elif (mine is None) != (theirs is None):
            return False
        return same and json.dumps(self.meta) == json.dumps(other.meta)

    def _rows(self, level: Level, index: int) -> slice:
        if level == "graph":
            return slice(index, index + 1)
        offsets = self.node_offsets if level == "node" else self.edge_offsets
        return slice(*offsets[index : index + 2])

    def _check_shapes(self) -> None:
        totals = {
            "node": int(self.node_offsets[-1]),
            "edge": int(self.edge_offsets[-1]),
            "graph": len(self),
        }
        if self.edge_index.shape != (2, totals["edge"]):
            shape = tuple(self.edge_index.shape)
            raise DataError(f"edge_index: shape {shape}, the offsets ask for (2, {totals['edge']})")
        for name, field in self.fields.items():
            if len(field.values) != totals[field.level]:
                raise DataError(
                    f"{name}: {len(field.values)} rows for {totals[field.level]} {field.level}s"
                )
        if len(self.split) != len(self):
            raise DataError(f"split: {len(self.split)} entries for {len(self)} graphs")
        if self.names is not None and len(self.names) != len(self):
            raise DataError(f"names: {len(self.names)} for {len(self)} graphs")


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    floats = np.issubdtype(a.dtype, np.inexact) and np.issubdtype(b.dtype, np.inexact)
    return bool(np.array_equal(a, b, equal_nan=floats))
