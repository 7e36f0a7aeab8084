"""Pickles from outside, opened without running anything: arrays and tensors, nothing else.

A pickle is a program; an ordinary ``pickle.load`` runs it. Here every name a file asks for is
looked up in the table below, where it finds the few constructors of arrays and tensors; any
other name is an error before anything is called.
"""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from eigenformer.data.errors import DataError, Problem


def load_arrays(stream: IO[bytes], name: str) -> Any:
    """Reads lists, dicts, numbers, NumPy arrays and tensors from a pickle or a ``.pt`` file.

    ``name`` is what to call the file in an error.
    """
    start = stream.read(len(_TORCH_MAGIC))
    stream.seek(0)
    try:
        if start.startswith(b"PK") or start == _TORCH_MAGIC:
            return torch.load(stream, map_location="cpu", weights_only=True)
        return _ArrayUnpickler(stream, encoding="latin1").load()
    except _Refused as error:
        raise DataError(Problem(name, str(error))) from None
    except (
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OSError,
        OverflowError,
        MemoryError,  # from sizes that only a damaged or malicious file claims
        zipfile.BadZipFile,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(Problem(name, f"not a file of arrays and tensors ({reason})")) from None


def load_arrays_from(path: Path) -> Any:
    """As :func:`load_arrays`, from a path."""
    with path.open("rb") as stream:
        return load_arrays(stream, str(path))


class _Refused(Exception):
    pass


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        allowed = _ALLOWED.get((module, name))
        if allowed is None:
            raise _Refused(f"asks for '{module}.{name}'; only arrays and tensors are admitted")
        return allowed

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("refers to objects outside itself; only arrays and tensors are admitted")


def _storage(data: bytes) -> torch.Tensor:
    """The elements of one storage, in a row."""
    # PyTorch's own function for this unpickles freely; the bytes hold one storage.
    storage = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return torch.empty(0, dtype=storage.dtype).set_(storage._untyped_storage)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise _Refused(f"encodes text as '{encoding}'")
    return text.encode("latin1")


def _array(kind: type, shape: Any, dtype: Any) -> np.ndarray:
    return np.ndarray.__new__(np.ndarray, shape, dtype)


def _scalar(dtype: np.dtype, data: bytes) -> Any:
    return np.frombuffer(data, dtype=dtype)[0]


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order)


def _tensor(row: torch.Tensor, offset: int, size: Any, stride: Any, *rest: Any) -> torch.Tensor:
    # Not PyTorch's own function, which enlarges the storage by whatever is asked for.
    return row.as_strided(size, stride, offset)


_TORCH_MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)

_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    **{
        (f"numpy.{core}.multiarray", name): function
        for core in ("core", "_core")
        for name, function in (("_reconstruct", _array), ("scalar", _scalar))
    },
}
