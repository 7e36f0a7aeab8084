"""Rows of numbers that are collected in a file, so that memory does not grow with them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np


class GrowingRows:
    """Rows of one shape, appended piece by piece and read as one memory-mapped array.

    The file has no name, so nothing is left of it when the process ends in any way.

    Args:
        dtype: The type of the numbers.
        folder: Where the file is (default: the folder for temporary files).
    """

    def __init__(self, dtype: np.dtype, folder: Path | None = None) -> None:
        self._dtype, self._rows = dtype, 0
        self._shape: tuple[int, ...] = ()
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  it lasts as long as this

    def append(self, rows: np.ndarray) -> None:
        """Appends rows, whose numbers must fit into the type."""
        self._shape = rows.shape[1:]
        self._file.write(np.ascontiguousarray(rows, self._dtype).tobytes())
        self._rows += len(rows)

    def array(self) -> np.ndarray:
        """Returns all rows. No more can be appended."""
        shape = (self._rows, *self._shape)
        if not self._rows:  # an empty file cannot be mapped
            return np.zeros(shape, self._dtype)
        self._file.flush()
        return np.memmap(self._file, self._dtype, "r", shape=shape).view(np.ndarray)
