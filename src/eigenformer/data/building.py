"""Builds an archive in the cache, or reuses the existing one if it is up to date."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DamagedError, DataError
from eigenformer.data.store import file_digest, remove_leftovers
from eigenformer.data.workspace import Layouts
from eigenformer.limits import Limits
from eigenformer.reporting import Reporter

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError)
_OTHER_CONTENT = (TypeError, AttributeError, OverflowError, MemoryError)
"""What the builders of benchmarks raise if a file holds other values than the published one."""


@dataclass(frozen=True)
class Builder:
    """How a benchmark is built.

    Args:
        layouts: The alternative sets of raw files; empty for a generated benchmark.
        build: The function that builds the archive from those files.
    """

    layouts: Layouts
    build: Callable[[list[Path], Reporter, Limits], GraphArchive]


def build_archive(
    path: Path,
    origin: dict[str, Any],
    locate: Callable[[], list[Path] | None],
    make: Callable[[list[Path]], GraphArchive],
    reporter: Reporter,
    fetch: Callable[[], list[Path]] | None = None,
) -> GraphArchive:
    """Returns the archive at ``path`` and builds it if it is missing, damaged or out of date."""
    files = locate()
    archive = _current(path, origin, files)
    if archive is not None:  # no lock without writing: the cache may be read-only
        return archive
    lock = _locked(path, reporter)
    try:
        remove_leftovers(path)
        archive = _current(path, origin, files, reporter)
        if archive is not None:  # another process has built it meanwhile
            return archive
        files = fetch() if fetch is not None else files or []  # checks existing files, too
        reporter.say(f"building the archive in {path}")
        # Stamp the files before reading them, so that a change during reading is noticed later.
        named = named_files(files)
        stamps = {name: _stamp(file) for name, file in named.items()}
        inputs = {name: file_digest(file) for name, file in named.items()}
        damaged = _DAMAGED if fetch is None else (*_DAMAGED, *_OTHER_CONTENT)
        try:
            built = make(files)
        except DataError:
            raise
        except damaged as error:
            names = ", ".join(map(str, files))
            # For a file that is not an array, NumPy suggests unpickling: never suggest that here.
            reason = "not a file of arrays" if "pickle" in str(error) else error
            raise DataError(
                f"{names}: damaged ({reason}); delete it, or replace it with an intact copy"
            ) from None
        built.meta["origin"] = {**origin, "inputs": inputs, "stamps": stamps}
        return built.save(path)
    finally:
        lock.release()


def _current(
    path: Path,
    origin: dict[str, Any],
    files: list[Path] | None,
    reporter: Reporter | None = None,
) -> GraphArchive | None:
    """Returns the existing archive if it is intact and was built from the same files and settings.

    Otherwise returns None.
    """
    if not path.exists():
        return None
    notice = reporter.notice if reporter is not None else lambda message: None
    try:
        archive = GraphArchive.open(path)
    except DamagedError as error:
        notice(f"{error}; rebuilding the archive")
        return None
    there = dict(archive.meta.get("origin", {}))
    inputs, stamps = there.pop("inputs", {}), there.pop("stamps", {})
    if there != origin:
        notice(f"{path}: made by another version or with other settings; rebuilding it")
        return None
    # Without the raw files, the archive cannot be checked for changes and is taken as current.
    named = None if files is None else named_files(files)
    if named is not None and (set(named) != set(inputs) or changed_files(named, inputs, stamps)):
        notice(f"{path}: the raw files have changed; rebuilding it")
        return None
    return archive


def changed_files(
    files: dict[str, Path], inputs: dict[str, str], stamps: dict[str, list[int]]
) -> list[Path]:
    """Returns the files whose checksums have changed; skips files whose stamp is unchanged."""
    return [
        file
        for name, file in files.items()
        if stamps.get(name) != _stamp(file) and inputs.get(name) != file_digest(file)
    ]


def named_files(files: list[Path]) -> dict[str, Path]:
    """Returns the files by their paths, relative to the parent of their common folder."""
    if not files:
        return {}
    whole = [Path(os.path.abspath(file)) for file in files]
    folder = Path(os.path.commonpath([file.parent for file in whole])).parent
    return {file.relative_to(folder).as_posix(): file for file in whole}


def _stamp(file: Path) -> list[int]:
    """Returns the size and the modification time of a file."""
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _locked(path: Path, reporter: Reporter) -> FileLock:
    """Locks a folder for writing; reports that it is waiting if another process holds the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        reporter.say(f"waiting for another process that is preparing {path.name}")
        lock.acquire()
    return lock
