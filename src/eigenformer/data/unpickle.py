"""Reads pickles and ``.pt`` files from outside without running any code in them.

A pickle is a program. ``pickle.load`` runs it, and ``torch.load(weights_only=True)`` runs whatever
any library in the process has put on PyTorch's list. Here our own machine follows the instructions
of a file and calls nothing (:mod:`eigenformer.data.pickle_machine`). The values that the file
describes are then checked and created anew (:mod:`eigenformer.data.plain_values`).
"""

from __future__ import annotations

import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from eigenformer.data.errors import DataError, Problem
from eigenformer.data.pickle_machine import (
    ARRAY_NAMES,
    PYG_NAMES,
    PickleMachine,
    Reference,
    Refused,
)
from eigenformer.data.plain_values import PlainValues, element_size, elements, of_kind
from eigenformer.data.stored_zip import StoredZip
from eigenformer.limits import DEFAULT_LIMITS, LimitError, Limits

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_MAGIC_BYTES = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def load_arrays(stream: IO[bytes], name: str, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Reads lists, dicts, numbers, NumPy arrays and tensors from a pickle or a ``.pt`` file.

    ``name`` is the name of the file in error messages.
    """
    return _load(stream, name, ARRAY_NAMES, "arrays and tensors", limits)


def load_arrays_from(path: Path, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Reads the same values as :func:`load_arrays`, from a path."""
    with path.open("rb") as stream:
        return load_arrays(stream, str(path), limits)


def load_graphs_from(path: Path, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Reads a path like :func:`load_arrays_from`. A PyG ``Data`` becomes a :class:`GraphFields`."""
    with path.open("rb") as stream:
        return _load(stream, str(path), ARRAY_NAMES | PYG_NAMES, "PyG Data", limits)


def _load(stream: IO[bytes], name: str, names: frozenset[Any], what: str, limits: Limits) -> Any:
    try:
        start = stream.read(len(_MAGIC_BYTES))
        stream.seek(0)
        if start.startswith(b"PK"):
            with _seekable(stream, limits) as file:
                return _zipped(file, names, limits)
        data = b"".join(_blocks(stream, limits))
        if start == _MAGIC_BYTES:
            return _legacy(data, names, limits)
        described = PickleMachine(data, 0, names).run()
        embedded = partial(_embedded, limits=limits)
        return PlainValues(limits.unpacked(len(data)), None, embedded).make(described)
    except (Refused, LimitError) as error:
        reason = str(error)
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    except (ValueError, RuntimeError, MemoryError) as error:
        # Not known to happen, but no file should cause a traceback.
        reason = f"{type(error).__name__} while reading"
    raise DataError(Problem(name, f"not a file of {what} ({reason})"))


def _zipped(file: IO[bytes], names: frozenset[Any], limits: Limits) -> Any:
    """Reads a ``.pt`` file as PyTorch writes it: a pickle, with every storage beside it."""
    archive = StoredZip(file)
    pickles = [name for name in archive.names if name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise Refused("does not have one data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.names and archive.read(f"{folder}byteorder") != b"little":
        raise Refused("was written on a big-endian machine")
    rows: dict[str, Tensor] = {}

    def storage(reference: Any) -> Tensor:
        kind, key, count = _storage_key(reference)
        if key not in rows:
            rows[key] = elements(archive.read(f"{folder}data/{key}"), kind, count)
        return of_kind(rows[key], kind)

    described = PickleMachine(archive.read(pickles[0]), 0, names).run()
    return PlainValues(limits.unpacked(archive.size), storage).make(described)


def _legacy(data: bytes, names: frozenset[Any], limits: Limits) -> Any:
    """Reads a ``.pt`` file from before PyTorch 1.6: five pickles, then all storages in a row."""
    position = 0
    described: list[Any] = []
    for number in range(5):  # magic number, version, machine, content, keys of the storages
        machine = PickleMachine(data, position, names if number == 3 else frozenset())
        described.append(machine.run())
        position = machine.position
        if number == 3:
            references = machine.references
    magic, protocol, system, content, keys = described
    if magic != _MAGIC or protocol != _PROTOCOL or type(keys) is not list:
        raise Refused("is of an unknown version")
    if type(system) is not dict or system.get("little_endian") is not True:
        raise Refused("was written on a big-endian machine")
    declared = {key: (kind, count) for kind, key, count in map(_storage_key, references)}
    rows: dict[str, Tensor] = {}
    for key in keys:
        if type(key) is not str or key not in declared or key in rows:
            raise Refused("lists storages that it does not have")
        kind, count = declared[key]
        start = position + 8
        position = start + count * element_size(kind)
        if position > len(data) or struct.unpack_from("<q", data, start - 8)[0] != count:
            raise Refused("has a storage of another size than it claims")
        rows[key] = elements(memoryview(data)[start:position], kind, count)

    def storage(reference: Any) -> Tensor:
        kind, key, _ = _storage_key(reference)
        if key not in rows:
            raise Refused("lacks one of its storages")
        return of_kind(rows[key], kind)

    if isinstance(content, Reference):  # only a storage
        return storage(content.key)
    return PlainValues(limits.unpacked(len(data)), storage).make(content)


def _embedded(data: bytes, limits: Limits) -> Any:
    """Reads a storage in an ordinary pickle: the bytes of a ``.pt`` file."""
    if not data.startswith(_MAGIC_BYTES):
        raise Refused("has a tensor without a storage")
    return _legacy(data, ARRAY_NAMES, limits)


def _storage_key(reference: Any) -> tuple[Any, str, int]:
    """Returns a storage's description: the type of its elements, its key, their number."""
    key = reference.key if isinstance(reference, Reference) else reference
    if type(key) is not tuple or len(key) not in (5, 6) or key[0] != "storage":
        raise Refused("refers to objects outside itself; only arrays and tensors are admitted")
    kind, place, count = key[1], key[2], key[4]
    if (
        type(place) is not str
        or type(count) is not int
        or count < 0
        or key[5:] not in ((), (None,))
    ):
        raise Refused("has a storage of another form")
    return kind, place, count


def _blocks(stream: IO[bytes], limits: Limits) -> Iterator[bytes]:
    count = 0
    while block := stream.read(1 << 20):
        count += len(block)
        limits.check("file_bytes", count)
        yield block


@contextmanager
def _seekable(stream: IO[bytes], limits: Limits) -> Iterator[IO[bytes]]:
    """Yields the stream itself, or a copy on disk if the stream is part of an archive."""
    if not isinstance(stream, zipfile.ZipExtFile):
        yield stream
        return
    with tempfile.TemporaryFile() as copy:
        copy.writelines(_blocks(stream, limits))
        copy.seek(0)
        yield copy
