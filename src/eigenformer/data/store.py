"""A folder of plain arrays with a manifest: written in one step, checked when opened.

Every array is an ordinary ``.npy`` file, memory-mapped when read. ``manifest.json`` holds the
types, shapes and checksums of the arrays, the metadata, and a checksum of itself. A folder is
therefore either complete or known to be damaged. It is written under a temporary name and then
renamed, so that a killed process leaves nothing that looks finished.
"""

from __future__ import annotations

import glob
import hashlib
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.config.forms import check_form
from eigenformer.config.json_text import parse_json
from eigenformer.data.errors import DamagedError, DataError, Problem

MANIFEST = "manifest.json"
_ARRAY_FORM = {"dtype": str, "shape": [int], "bytes": int, "sha256": str}
_MANIFEST_FORM = {
    "format": int,
    "kind": str,
    "arrays": {str: _ARRAY_FORM},
    "meta": {str: object},
    "sha256": str,
}
_FORMAT = 1
_TEMPORARY = ".unfinished~"
_BLOCK = 1 << 26


@dataclass(frozen=True)
class Store:
    """An open folder: memory-mapped arrays, metadata, and the checksum of the manifest."""

    path: Path
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]
    digest: str


def write_store(
    path: Path,
    kind: str,
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, Any],
    types: Mapping[str, np.dtype] | None = None,
) -> Store:
    """Writes the arrays to the folder ``path``. Replaces an older store in one step.

    Args:
        path: The folder.
        kind: What the arrays are.
        arrays: The arrays by name.
        meta: The metadata.
        types: The types to write arrays as, where they differ from their own.
    """
    types = types or {}
    with temporary_folder(path) as folder:
        for name, array in arrays.items():
            save_array(folder / f"{name}.npy", array, types.get(name))
        seal(folder, kind, meta)
        replace_folder(folder, path)
    return open_store(path, kind)


def save_array(file: Path, array: np.ndarray, dtype: np.dtype | None = None) -> None:
    """Writes numbers as ``numpy.save`` does, whose error does not say that a disk is full.

    Converts them piece by piece, so that a mapped array is never in memory as a whole.

    Args:
        file: The file.
        array: The numbers.
        dtype: The type to write them as (default: their own).
    """
    dtype = array.dtype if dtype is None else dtype
    if dtype.kind not in "biuf":
        raise ValueError(f"{file.name}: {dtype} values are not numbers")
    empty = np.empty(0, dtype)
    header = {**np.lib.format.header_data_from_array_1_0(empty), "shape": array.shape}
    with file.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        for part in _parts(array):
            stream.write(np.ascontiguousarray(part, dtype).reshape(-1).view(np.uint8).data)


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yields an array in parts, in row-major order."""
    if array.nbytes <= _BLOCK:
        yield array
    elif len(array) == 1:
        yield from _parts(array[0])
    else:
        middle = len(array) // 2
        yield from _parts(array[:middle])
        yield from _parts(array[middle:])


class GrowingArray:
    """A one-dimensional float32 ``.npy`` file that grows. Its header is completed at the end."""

    def __init__(self, path: Path) -> None:
        self._path, self._length = path, 0

    def __enter__(self) -> GrowingArray:
        self._stream = self._path.open("wb")
        self._write_header()
        return self

    def append(self, values: np.ndarray) -> None:
        """Appends all entries in row-major order."""
        self._stream.write(values.astype("<f4").tobytes())
        self._length += values.size

    def __exit__(self, *error: object) -> None:
        self._stream.seek(0)
        self._write_header()
        self._stream.close()

    def _write_header(self) -> None:
        # NumPy pads headers, so that the header of any length fits over that of an empty array.
        header = {"descr": "<f4", "fortran_order": False, "shape": (self._length,)}
        np.lib.format.write_array_header_1_0(self._stream, header)


def seal(folder: Path, kind: str, meta: Mapping[str, Any]) -> None:
    """Writes the manifest of a folder with complete arrays, and flushes all files to disk."""
    arrays = {}
    for file in sorted(folder.glob("*.npy")):
        array = _load(file)
        arrays[file.stem] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bytes": file.stat().st_size,
            "sha256": file_digest(file),
        }
        _sync(file)
    content: dict[str, Any] = {"format": _FORMAT, "kind": kind, "arrays": arrays, "meta": meta}
    content = json.loads(
        json.dumps(content, allow_nan=False)
    )  # as a reader will see it, with lists for tuples
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({**content, "sha256": _digest(content)}, indent=1), "utf-8")
    _sync(manifest)
    _sync(folder)


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    """Reads the manifest of a store and checks it against its own checksum. Reads no arrays."""
    file = path / MANIFEST
    try:
        content = parse_json(file.read_text("utf-8"))
        check_form(content, _MANIFEST_FORM)
        digest = content.pop("sha256")
    except FileNotFoundError:
        raise DamagedError(Problem(str(file), "missing: the folder is incomplete")) from None
    except (OSError, ValueError) as error:
        reason = f"not a manifest, or damaged ({error})"
        raise DamagedError(Problem(str(file), reason)) from None
    if digest != _digest(content):
        raise DamagedError(Problem(str(file), "its checksum does not match: the file was altered"))
    if content["format"] != _FORMAT or content["kind"] != kind:
        reason = f"holds '{content['kind']}' in format {content['format']}, not '{kind}'"
        raise DamagedError(Problem(str(file), f"{reason} in format {_FORMAT}"))
    return {**content, "sha256": digest}


def open_store(path: Path, kind: str, verify: bool = False) -> Store:
    """Opens a folder and memory-maps its arrays.

    Always checks sizes, types and shapes, and the checksums of files that were modified after the
    manifest was written. With ``verify``, checks the checksum of every file. Raises a
    :class:`DamagedError` that names the file if a check fails.
    """
    manifest = read_manifest(path, kind)
    sealed = (path / MANIFEST).stat().st_mtime_ns
    arrays = {}
    for name, record in manifest["arrays"].items():
        file = path / f"{name}.npy"
        if Path(name).name != name:  # leads out of the folder
            raise DamagedError(Problem(str(path / MANIFEST), f"'{name}' is not an array's name"))
        if not file.is_file() or file.stat().st_size != record["bytes"]:
            raise DamagedError(Problem(str(file), "missing or truncated"))
        suspect = verify or file.stat().st_mtime_ns > sealed
        if suspect and file_digest(file) != record["sha256"]:
            raise DamagedError(
                Problem(str(file), "its checksum does not match: the file was altered")
            )
        try:
            array = _load(file)
        except Exception:  # NumPy may raise anything for a damaged header
            raise DamagedError(Problem(str(file), "not an array: the file was altered")) from None
        if array.dtype.kind not in "biuf":
            raise DamagedError(Problem(str(file), "not an array of numbers"))
        if [array.dtype.str, list(array.shape)] != [record["dtype"], record["shape"]]:
            raise DamagedError(
                Problem(str(file), "its type or shape differs from the recorded one")
            )
        arrays[name] = array
    return Store(path, kind, manifest["meta"], arrays, manifest["sha256"])


def check_mapped(array: np.ndarray) -> None:
    """Raises an error if the file of a memory-mapped array was truncated since it was opened.

    Reading such an array would end the process, or read zeros.
    """
    mapped: Any = array
    while (base := getattr(mapped, "base", None)) is not None:
        # The size of a map is that of its file now.
        if isinstance(base, mmap.mmap) and base.size() < mapped.offset + mapped.nbytes:
            raise DamagedError(Problem(str(mapped.filename), "truncated while it was in use"))
        mapped = base


def file_digest(file: Path) -> str:
    """Returns the SHA-256 of the SHA-256s of all 64 MB blocks. Blocks are read on all cores."""
    size = file.stat().st_size

    def block(start: int) -> bytes:
        with file.open("rb") as stream:
            stream.seek(start)
            return hashlib.sha256(stream.read(_BLOCK)).digest()

    starts = range(0, size, _BLOCK)
    if len(starts) < 2:
        return hashlib.sha256(b"".join(map(block, starts))).hexdigest()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return hashlib.sha256(b"".join(pool.map(block, starts))).hexdigest()


@contextmanager
def temporary_folder(final: Path) -> Iterator[Path]:
    """Creates a folder beside the final one. Removes it at the end unless it was renamed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{final.name}~", dir=final.parent))
    try:
        folder.chmod(0o755)
        yield folder
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        # The error of a write, for example to a full disk, does not name its file.
        raise OSError(error.errno, error.strerror, str(final)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replace_folder(folder: Path, final: Path) -> None:
    """Renames ``folder`` to ``final``. Replaces an older store, but never anything else."""
    if final.exists():
        if not _is_ours(final, folder):
            raise DataError(
                Problem(str(final), "already exists and is not an archive: not overwritten")
            )
        with temporary_folder(final) as trash:
            final.rename(trash / final.name)
            folder.rename(final)
    else:
        folder.rename(final)
    _sync(final.parent)


def _is_ours(final: Path, new: Path) -> bool:
    """Returns whether ``final`` may be replaced: a store, complete or damaged, or empty."""
    if not final.is_dir():
        return False
    there = {entry.name for entry in final.iterdir()}
    return MANIFEST in there or there <= {entry.name for entry in new.iterdir()}


def remove_leftovers(final: Path) -> None:
    """Removes temporary folders that killed processes left behind for ``final``.

    Call this only while holding the lock of ``final``.
    """
    for folder in final.parent.glob(f"{_TEMPORARY}{glob.escape(final.name)}~*"):
        shutil.rmtree(folder, ignore_errors=True)


def folder_bytes(path: Path) -> int:
    """Returns the total size of all files in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _load(file: Path) -> np.ndarray:
    array = np.load(file, mmap_mode=None if _is_empty(file) else "r", allow_pickle=False)
    # The class np.memmap makes every slice slower, and nothing here needs it.
    return array.view(np.ndarray)


def _is_empty(file: Path) -> bool:
    """Returns whether an array has no elements. An empty array cannot be memory-mapped."""
    with file.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        return 0 in read(stream)[0]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():  # only POSIX can open a folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
