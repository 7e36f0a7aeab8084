"""Compressed files of arrays, unpacked only as far as the limits allow.

The sizes that a file declares are checked first. An array is then a shape and exactly as many bytes
as the shape takes, so that no memory is taken for what is not there.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from eigenformer.data.errors import DataError, Problem, placed
from eigenformer.limits import DEFAULT_LIMITS, Limits


@contextmanager
def open_member(
    archive: zipfile.ZipFile, name: str, limits: Limits = DEFAULT_LIMITS
) -> Iterator[IO[bytes]]:
    """Opens a member of a zip file. Raises an error if it unpacks to too many bytes."""
    place = f"{archive.filename}/{name}"
    info = archive.getinfo(name)
    with placed(place):
        limits.check_unpacked(info.file_size, info.compress_size)
    with _damaged():
        stream = archive.open(info)
    with stream:  # yields no more than the declared bytes
        yield stream


def read_npz(path: Path, limits: Limits = DEFAULT_LIMITS) -> dict[str, np.ndarray]:
    """Reads all arrays of an ``.npz`` file. Arrays of objects are refused."""
    with _damaged(), zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        with placed(path):
            limits.check_unpacked(sum(info.file_size for info in infos), os.path.getsize(path))
        return {info.filename.removesuffix(".npy"): _array(archive, info) for info in infos}


@contextmanager
def _damaged() -> Iterator[None]:
    """Translates all of Python's errors for an invalid zip file to one."""
    try:
        yield
    except (OSError, struct.error, RuntimeError) as error:
        raise zipfile.BadZipFile(str(error)) from None


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    data = archive.read(info)
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except Exception:  # NumPy may raise anything for a damaged header
        raise DataError(Problem(str(archive.filename), f"'{info.filename}': no array")) from None
    start = stream.tell()
    count = math.prod(shape)
    if dtype.kind not in "biuf" or min(shape, default=0) < 0 or len(shape) > 32:
        reason = f"'{info.filename}': expected an array of numbers"
        raise DataError(Problem(str(archive.filename), reason))
    if count * dtype.itemsize != len(data) - start:
        reason = f"'{info.filename}': {len(data) - start} bytes, but the shape is {shape}"
        raise DataError(Problem(str(archive.filename), reason))
    values = np.frombuffer(data, dtype, count, start) if count else np.empty(0, dtype)
    return values.reshape(shape, order="F" if fortran else "C")
