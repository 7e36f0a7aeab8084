"""Checkpoints that are written atomically and read without executing any code in them.

A checkpoint is a zip file with two members: ``state.json`` is the nested state with every tensor
replaced by a number, and ``tensors.safetensors`` has the tensors by number. Earlier versions used
``torch.save``; :mod:`eigenformer.data.unpickle` reads their checkpoints.
"""

from __future__ import annotations

import collections
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO
from torch import Tensor

from eigenformer.data.errors import DataError
from eigenformer.data.pickle_machine import Refused
from eigenformer.data.stored_zip import StoredZip
from eigenformer.data.unpickle import load_arrays_from
from eigenformer.files import write_atomic
from eigenformer.training.run_folder import RunError

STATE, TENSORS = "state.json", "tensors.safetensors"


class AtomicCheckpointIO(CheckpointIO):
    """Writes and reads Lightning's checkpoints."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        write_atomic(Path(path), pack_state(checkpoint))

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = True
    ) -> dict[str, Any]:
        """Loads tensors and plain data only, to the CPU. The other arguments are ignored."""
        path = Path(path)
        try:
            state = _read(path)
        except (Refused, DataError, OSError) as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise RunError(f"{path}: damaged, or not a checkpoint ({reason})") from None
        if not isinstance(state, dict):
            raise RunError(f"{path}: damaged, or not a checkpoint")
        return state

    def remove_checkpoint(self, path: str | Path) -> None:
        Path(path).unlink(missing_ok=True)


def pack_state(state: dict[str, Any]) -> bytes:
    """Returns the bytes of a checkpoint. Equal states give equal bytes."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(_pack(state, tensors), ensure_ascii=False)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in ((STATE, skeleton.encode()), (TENSORS, save(tensors))):
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def unpack_state(skeleton: bytes, tensors: bytes) -> Any:
    """Returns the state of a checkpoint."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return _unpack(json.loads(skeleton), load(tensors))
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refused(f"inconsistent content: {type(error).__name__}") from None


def _read(path: Path) -> Any:
    with path.open("rb") as file:
        archive = StoredZip(file)
        if STATE in archive.names:
            return unpack_state(archive.read(STATE), archive.read(TENSORS))
    return load_arrays_from(path)


def _pack(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Keeps plain values; converts all others to objects that name their kind."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        number = str(len(tensors))
        tensors[number] = value.detach().cpu().contiguous().clone()
        packed: dict[str, Any] = {"tensor": number}
        if not value.is_contiguous() and _is_dense(value.shape, value.stride()):
            packed["stride"] = list(value.stride())
        return packed
    if isinstance(value, tuple):
        return {"tuple": [_pack(part, tensors) for part in value]}
    if isinstance(value, list):
        return [_pack(part, tensors) for part in value]
    if isinstance(value, dict):
        kind = "ordered" if isinstance(value, collections.OrderedDict) else "dict"
        if not all(type(key) in (str, int) for key in value):
            raise TypeError("the keys of a checkpoint must be strings or whole numbers")
        return {kind: [[key, _pack(part, tensors)] for key, part in value.items()]}
    raise TypeError(
        f"a checkpoint can hold only tensors and plain values, got {type(value).__name__}"
    )


def _unpack(packed: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(packed, list):
        return [_unpack(part, tensors) for part in packed]
    if not isinstance(packed, dict):
        return packed
    kind: str
    content: Any
    kind, content = next(iter(packed.items()), ("", ()))
    if kind == "tensor":
        tensor = tensors[content]
        return _strided(tensor, packed["stride"]) if "stride" in packed else tensor
    if kind == "tuple":
        return tuple(_unpack(part, tensors) for part in content)
    if kind in ("dict", "ordered"):
        pairs = [(key, _unpack(part, tensors)) for key, part in content]
        return dict(pairs) if kind == "dict" else collections.OrderedDict(pairs)
    raise ValueError(f"unknown kind '{kind}'")


def _strided(tensor: Tensor, stride: list[int]) -> Tensor:
    """Restores a tensor's memory layout, which PyTorch's fused optimisers rely on."""
    if not _is_dense(tensor.shape, stride):
        raise ValueError("impossible strides")
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype).copy_(tensor)


def _is_dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether strides have no gaps and no overlap, as those of a transposed tensor."""
    expected = 1
    for step, size in sorted(zip(stride, shape, strict=True)):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True
