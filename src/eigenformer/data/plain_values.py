"""Contents of a pickle → arrays, tensors and plain containers.

Only bytes from the file reach NumPy or PyTorch. Types come from a fixed list, shapes are checked
against the bytes in the file, and tensors are checked against their storage.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eigenformer.data.pickle_machine import STORAGES, Call, Name, Reference, Refused

MAX_DEPTH = 100
"""The maximum nesting depth of containers."""

MAX_CONTAINERS = 10_000_000
"""The maximum number of lists, dictionaries, arrays and tensors per file."""

_NUMBERS = frozenset(
    {"b1", *(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)), "f2", "f4", "f8"}
)
_MAX_DIMENSIONS = 32

ReadStorage = Callable[[Any], Tensor]
"""Converts a file's reference to a storage to the storage's elements, in a row."""


class GraphFields(dict[str, Any]):
    """The attributes of a PyG ``Data``."""


class PlainValues:
    """Converts the contents of a pickle to plain values.

    Args:
        limit: The largest size of the values in bytes. They are larger than their file if parts
            are reused or tensors are expanded.
        read_storage: Reads a storage outside the pickle; None if there are no such storages.
        read_embedded: Reads a storage that is embedded as bytes; None if there are none.
    """

    def __init__(
        self,
        limit: int,
        read_storage: ReadStorage | None = None,
        read_embedded: Callable[[bytes], Any] | None = None,
    ) -> None:
        self.limit = limit
        self.read_storage = read_storage
        self.read_embedded = read_embedded
        # The value and size of each described object, by its identity; None while it is created.
        self.made: dict[int, tuple[Any, int] | None] = {}

    def make(self, described: Any) -> Any:
        """Returns the value that is described."""
        return self._make(described, 0)[0]

    def _make(self, described: Any, depth: int) -> tuple[Any, int]:
        kind = type(described)
        if kind is float or described is None or kind is bool:
            return described, 8
        if kind is int:
            if not -(2**63) <= described < 2**64:
                raise Refused("has a number of more than 64 bits")
            return described, 8
        if kind is str or kind is bytes:
            return described, 8 + len(described)
        if id(described) in self.made:
            found = self.made[id(described)]
            if found is None:
                raise Refused("has a value that contains itself")
            return found
        if depth > MAX_DEPTH:
            raise Refused(f"has values nested more than {MAX_DEPTH} deep")
        if len(self.made) >= MAX_CONTAINERS:
            raise Refused(f"has more than {MAX_CONTAINERS:,} lists, arrays and tensors")
        self.made[id(described)] = None
        value, size = self._container(described, depth + 1)
        if size > self.limit:
            raise Refused(f"describes more than {self.limit:,} bytes: see --limits unpacked_bytes")
        self.made[id(described)] = value, size
        return value, size

    def _container(self, described: Any, depth: int) -> tuple[Any, int]:
        if isinstance(described, list | tuple):
            values, total = [], 8
            for part in described:
                value, size = self._make(part, depth)
                values.append(value)
                total += size
            return (values if isinstance(described, list) else tuple(values)), total
        if isinstance(described, dict):
            return self._entries(described, {}, depth)
        if isinstance(described, Call):
            return self._called(described, depth)
        if isinstance(described, Reference):
            raise Refused("refers to objects outside itself; only arrays and tensors are admitted")
        raise Refused(f"uses '{described}' where a value is expected")

    def _entries(self, entries: dict[Any, Any], into: Any, depth: int) -> tuple[Any, int]:
        size = 8
        for key, part in entries.items():
            into[key], weight = self._make(part, depth)
            size += 8 + weight + (len(key) if isinstance(key, str) else 0)
        return into, size

    def _called(self, call: Call, depth: int) -> tuple[Any, int]:
        name = call.name.name
        if name == "OrderedDict":
            return self._ordered(call, depth)
        if name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            tensor = self._tensor(call.arguments)
            return tensor, 64 + tensor.numel() * tensor.element_size()
        if name in ("_reconstruct", "_frombuffer"):
            array = _reconstructed(call) if name == "_reconstruct" else _of_buffer(call)
            return array, 64 + array.nbytes
        if name == "scalar":
            return _scalar(call), 64
        if name == "encode":
            text = _bytes(call)
            return text, 8 + len(text)
        if name == "Data":
            return self._entries(_graph_fields(call), GraphFields(), depth)
        raise Refused(f"uses '{call.name}' where a value is expected")

    def _ordered(self, call: Call, depth: int) -> tuple[Any, int]:
        given = call.arguments[0] if len(call.arguments) == 1 else list(call.arguments)
        if type(given) is not list:
            raise Refused("has an ordered dictionary of another form")
        entries: dict[Any, Any] = {}
        for pair in given:
            if type(pair) not in (list, tuple) or len(pair) != 2 or type(pair[0]) is not str:
                raise Refused("has an ordered dictionary of another form")
            entries[pair[0]] = pair[1]
        # Attributes other than the entries are PyTorch's book-keeping.
        return self._entries({**entries, **call.entries}, collections.OrderedDict(), depth)

    def _tensor(self, arguments: tuple[Any, ...]) -> Tensor:
        if len(arguments) < 4:
            raise Refused("has a tensor of another form")
        described, offset, size, stride = arguments[:4]
        row = self._storage(described)
        if not (_whole([offset], 2**48) and _whole(size, 2**48) and _whole(stride, 2**48)):
            raise Refused("has a tensor of an impossible shape")
        if len(size) != len(stride) or len(size) > _MAX_DIMENSIONS:
            raise Refused("has a tensor of an impossible shape")
        count = math.prod(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if offset > row.numel() or (count and last >= row.numel()):
            raise Refused("has a tensor that is larger than its storage")
        if count * row.element_size() > self.limit:
            raise Refused(f"describes more than {self.limit:,} bytes: see --limits unpacked_bytes")
        if not count and math.prod(n for n in size if n) >= 2**48:
            raise Refused("has a tensor of an impossible shape")
        return row.as_strided(size, stride, offset)

    def _storage(self, described: Any) -> Tensor:
        if isinstance(described, Reference) and self.read_storage is not None:
            return self.read_storage(described.key)
        embedded = isinstance(described, Call) and described.name.name == "_load_from_bytes"
        if not embedded or self.read_embedded is None or len(described.arguments) != 1:
            raise Refused("has a tensor without a storage")
        if id(described) not in self.made:
            row = self.read_embedded(_bytes(described.arguments[0]))
            if not isinstance(row, Tensor):
                raise Refused("has a tensor without a storage")
            self.made[id(described)] = row, 0
        found = self.made[id(described)]
        if found is None:
            raise Refused("has a tensor without a storage")
        return found[0]


def elements(data: bytes | memoryview, kind: Any, count: int) -> Tensor:
    """Returns the elements of a storage. Raises an error if the number of bytes does not match."""
    dtype = _element_type(kind)
    if len(data) != count * dtype.itemsize:
        raise Refused("has a storage of another size than it claims")
    if not count:
        return torch.empty(0, dtype=dtype)
    # Bytes other than 0 and 1 are not truth values, and NumPy must not count them.
    if dtype is torch.bool and max(data) > 1:
        raise Refused("has truth values that are neither true nor false")
    return torch.frombuffer(bytearray(data), dtype=dtype)


def element_size(kind: Any) -> int:
    """Returns the size of one element of a storage in bytes."""
    return _element_type(kind).itemsize


def of_kind(row: Tensor, kind: Any) -> Tensor:
    """Returns the elements of a storage. Raises an error if it is used with another type."""
    if row.dtype is not _element_type(kind):
        raise Refused("uses a storage as another type")
    return row


def _element_type(kind: Any) -> torch.dtype:
    name = STORAGES.get(kind.name) if isinstance(kind, Name) else None
    if name is None:
        raise Refused("has a storage of an unknown type")
    return getattr(torch, name)


def _whole(values: Any, limit: int) -> bool:
    return type(values) in (list, tuple) and all(
        type(value) is int and 0 <= value < limit for value in values
    )


def _bytes(described: Any) -> bytes:
    """Returns bytes, which the old protocols write as text."""
    if isinstance(described, Call) and described.name.name == "encode":
        if len(described.arguments) != 2 or described.arguments[1] not in ("latin1", "latin-1"):
            raise Refused("encodes a text in an unknown way")
        described = described.arguments[0]
    if isinstance(described, str):
        try:
            return described.encode("latin1")
        except UnicodeEncodeError:
            raise Refused("has bytes that are none") from None
    if not isinstance(described, bytes):
        raise Refused("has an array without its bytes")
    return described


def _dtype(described: Any) -> np.dtype:
    """Returns a type of numbers from the fixed list."""
    if not isinstance(described, Call) or described.name != Name("numpy", "dtype"):
        raise Refused("has an array without a type")
    letters = described.arguments[0] if described.arguments else None
    if type(letters) is not str or letters.lstrip("<>|=") not in _NUMBERS:
        raise Refused("has an array of another type than numbers")
    order = "<" if described.state is None else ""
    state = described.state
    if type(state) is tuple and len(state) in (7, 8):
        plain = all(part is None for part in state[2:5]) and state[5:7] == (-1, -1)
        if plain and state[1] in ("<", ">", "|", "=") and (len(state) == 7 or state[7] == 0):
            order = ">" if state[1] == ">" else "<"
    if not order:
        raise Refused("has an array of another type than numbers")
    return np.dtype(order + letters.lstrip("<>|="))


def _array(data: bytes, dtype: np.dtype, shape: Any, order: Any) -> np.ndarray:
    """Returns the bytes as an array. Raises an error if their number does not match the shape."""
    if not _whole(shape, 2**48) or len(shape) > _MAX_DIMENSIONS:
        raise Refused("has an array of an impossible shape")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise Refused("has an array of another size than its bytes")
    if not data and math.prod(n for n in shape if n) >= 2**48:
        raise Refused("has an array of an impossible shape")
    if dtype.kind == "b" and data and max(data) > 1:
        raise Refused("has truth values that are neither true nor false")
    fortran = order is True or order == "F"
    row = np.frombuffer(data, dtype=dtype) if data else np.empty(0, dtype)
    # The copy is writable and has the byte order of this machine.
    native = row.astype(dtype.newbyteorder("="))
    return native.reshape(tuple(shape), order="F" if fortran else "C")


def _reconstructed(call: Call) -> np.ndarray:
    state = call.state
    if type(state) is not tuple or len(state) != 5:
        raise Refused("has an array without its content")
    _, shape, dtype, fortran, data = state
    return _array(_bytes(data), _dtype(dtype), shape, fortran)


def _of_buffer(call: Call) -> np.ndarray:
    if len(call.arguments) != 4:
        raise Refused("has an array of another form")
    data, dtype, shape, order = call.arguments
    return _array(_bytes(data), _dtype(dtype), shape, order)


def _scalar(call: Call) -> Any:
    if len(call.arguments) != 2:
        raise Refused("has a number of another form")
    return _array(_bytes(call.arguments[1]), _dtype(call.arguments[0]), (1,), False)[0]


def _graph_fields(call: Call) -> dict[Any, Any]:
    """Returns the attributes of a PyG ``Data`` from its storage."""
    store = call.state.get("_store") if type(call.state) is dict else None
    state = store.state if isinstance(store, Call) else None
    fields = state.get("_mapping") if type(state) is dict else None
    if type(fields) is not dict or not all(type(key) is str for key in fields):
        raise Refused("has a PyG Data of another form")
    return fields
