"""The parts an archive is made of: attributes and splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eigenformer.data.errors import DataError
from eigenformer.nearest import unknown

Level = Literal["node", "edge", "graph"]

SPLITS = ("train", "val", "test")
NO_SPLIT = 255


@dataclass(frozen=True)
class Field:
    """One attribute of all graphs, packed graph after graph.

    Args:
        level: What has a row each: a node, an edge, or a graph.
        values: The rows; integers may be stored in fewer bits than ``dtype`` has.
        dtype: The type in which a graph carries it; for texts, one per graph, ``object``.
    """

    level: Level
    values: np.ndarray
    dtype: np.dtype

    @property
    def is_text(self) -> bool:
        """Whether it holds texts instead of numbers."""
        return self.dtype.kind == "O"

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Field:
        """One text per graph."""
        values = np.empty(len(texts), dtype=object)
        values[:] = texts
        return cls("graph", values, values.dtype)


def number_splits(split: Sequence[str | None] | np.ndarray) -> np.ndarray:
    """Split names as places in ``SPLITS``, None as no split; places stay as they are."""
    array = np.asarray(split)
    if array.ndim == 1 and array.dtype.kind in "iu":
        strange = array[~np.isin(array, (*range(len(SPLITS)), NO_SPLIT))]
        if len(strange):
            raise DataError(f"split: {strange[0]}; expected 0, 1, 2, or {NO_SPLIT} for none")
        return array.astype(np.uint8, copy=False)
    for name in split:
        if name is not None and name not in SPLITS:
            raise DataError(unknown(f"split '{name}'", str(name), SPLITS))
    places = [NO_SPLIT if name is None else SPLITS.index(name) for name in split]
    return np.array(places, dtype=np.uint8)


def graph_place(index: int, names: Sequence[str] | None) -> str:
    """What to call a graph in an error."""
    return f"graph {index}" + ("" if names is None else f" ('{names[index]}')")


def packed_rows(offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the chosen graphs one after the other, and the offsets they then have."""
    counts = offsets[chosen + 1] - offsets[chosen]
    ends = np.cumsum(counts)
    new = np.concatenate([np.zeros(1, np.int64), ends])
    rows = np.repeat(offsets[chosen] - new[:-1], counts) + np.arange(new[-1])
    return rows, new
