"""Small forms for big arrays: integers in as few bits as they need, texts as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)


def narrow(values: np.ndarray) -> np.ndarray:
    """The same integers in the smallest type that holds them all; other types as they are."""
    if values.dtype.kind not in "iu" or values.size == 0 or values.itemsize == 1:
        return values
    low, high = values.min(), values.max()
    for dtype in _INTEGERS:
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values if values.itemsize <= np.dtype(dtype).itemsize else values.astype(dtype)
    return values


def pack_text(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Texts as one array of UTF-8 bytes, and where each of them begins."""
    encoded = [text.encode("utf-8") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack_text(packed: np.ndarray, offsets: np.ndarray) -> Sequence[str]:
    """The texts behind :func:`pack_text`, each decoded when it is asked for."""
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
        return self._packed[start:end].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))
