"""The attributes and splits of an archive, and their forms on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eigenformer.data.errors import DataError
from eigenformer.data.store import check_mapped
from eigenformer.nearest import unknown

Level = Literal["node", "edge", "graph"]

SPLITS = ("train", "val", "test")
NO_SPLIT = 255

ROW_WEIGHT = "row_weight"
"""The attribute of graphs with their weight in the training loss."""

_INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)


@dataclass(frozen=True)
class Field:
    """One attribute of all graphs, concatenated in the order of the graphs.

    Args:
        level: Whether there is one row per node, per edge, or per graph.
        values: The rows; integers may be stored in fewer bits than those of ``dtype``.
        dtype: The type of the attribute in a graph; ``object`` for text, with one text per graph.
    """

    level: Level
    values: np.ndarray
    dtype: np.dtype

    @property
    def is_text(self) -> bool:
        """Whether the field holds text instead of numbers."""
        return self.dtype.kind == "O"

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Field:
        """Creates a field with one text per graph."""
        values = np.empty(len(texts), dtype=object)
        values[:] = texts
        return cls("graph", values, values.dtype)


def number_splits(split: Sequence[str | None] | np.ndarray) -> np.ndarray:
    """Returns split names as indices into ``SPLITS``, and None as ``NO_SPLIT``.

    Indices are returned unchanged.
    """
    array = np.asarray(split)
    if array.ndim == 1 and array.dtype.kind in "iu":
        strange = array[~np.isin(array, (*range(len(SPLITS)), NO_SPLIT))]
        if len(strange):
            raise DataError(f"split: got {strange[0]}, expected 0, 1, 2, or {NO_SPLIT} for none")
        return array.astype(np.uint8)
    for name in split:
        if name is not None and name not in SPLITS:
            raise DataError(unknown(f"split '{name}'", str(name), SPLITS))
    places = [NO_SPLIT if name is None else SPLITS.index(name) for name in split]
    return np.array(places, dtype=np.uint8)


def graph_place(index: int, names: Sequence[str] | None) -> str:
    """Returns how error messages refer to a graph."""
    return f"graph {index}" + ("" if names is None else f" ('{names[index]}')")


def packed_rows(offsets: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the concatenated row indices of the chosen graphs, and their new offsets."""
    counts = offsets[chosen + 1] - offsets[chosen]
    ends = np.cumsum(counts)
    new = np.concatenate([np.zeros(1, np.int64), ends])
    rows = np.repeat(offsets[chosen] - new[:-1], counts) + np.arange(new[-1])
    return rows, new


def narrow(values: np.ndarray) -> np.ndarray:
    """Returns integers in the smallest type that holds them all; other types are unchanged."""
    return values.astype(narrow_type(values), copy=False)


def narrow_type(values: np.ndarray) -> np.dtype:
    """Returns the smallest type that holds all of these integers; other types are unchanged."""
    if values.dtype.kind not in "iu" or values.size == 0 or values.itemsize == 1:
        return values.dtype
    low, high = values.min(), values.max()
    for kind in _INTEGERS:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            dtype = np.dtype(kind)
            return values.dtype if values.itemsize <= dtype.itemsize else dtype
    return values.dtype


def pack_text(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns texts as one array of UTF-8 bytes, and the offset of each text."""
    encoded = [text.encode("utf-8") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_text(packed: np.ndarray, offsets: np.ndarray) -> Sequence[str]:
    """Returns the texts packed by :func:`pack_text`; each is decoded on access."""
    packed, offsets = np.asarray(packed), np.array(offsets)
    whole = packed.dtype == np.uint8 and packed.ndim == 1 and offsets.dtype.kind in "iu"
    if not whole or offsets.ndim != 1 or not len(offsets):
        raise DataError("texts: expected bytes and the offset of each text")
    if offsets[0] != 0 or offsets[-1] != len(packed) or (np.diff(offsets.astype("i8")) < 0).any():
        raise DataError("texts: their offsets do not match their bytes")
    return _Texts(packed, offsets)


class _Texts(Sequence[str]):
    def __init__(self, packed: np.ndarray, offsets: np.ndarray) -> None:
        self._packed, self._offsets = packed, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index = int(index) % len(self)
        start, end = self._offsets[index : index + 2]
        check_mapped(self._packed)
        return self._packed[start:end].tobytes().decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))
