"""One archive in the cache: the one that is there, if it is what would be built, or built anew."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DamagedError, DataError
from eigenformer.data.store import file_digest, remove_leftovers
from eigenformer.reporting import Reporter


def build_archive(
    path: Path,
    origin: dict[str, Any],
    locate: Callable[[], list[Path] | None],
    make: Callable[[list[Path]], GraphArchive],
    reporter: Reporter,
    fetch: Callable[[], list[Path]] | None = None,
) -> GraphArchive:
    """The archive at ``path``: the one that is there, if it is what would be made, or made anew."""
    files = locate()
    archive = _current(path, origin, files)
    if archive is not None:  # nothing to write, so nothing to lock: the cache may be read-only
        return archive
    lock = _locked(path, reporter)
    try:
        remove_leftovers(path)
        archive = _current(path, origin, files, reporter)
        if archive is not None:  # another process was quicker
            return archive
        files = fetch() if fetch is not None else files or []  # checked, too, if it was there
        reporter.say(f"building the archive in {path}")
        named = named_files(files)  # as they are now: a change while they are read shows later
        stamps = {name: _stamp(file) for name, file in named.items()}
        inputs = {name: file_digest(file) for name, file in named.items()}
        try:
            built = make(files)
        except DataError:
            raise
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError) as error:
            names = ", ".join(map(str, files))
            # NumPy's advice for what is no array is to unpickle it: never.
            reason = "no file of arrays" if "pickle" in str(error) else error
            raise DataError(
                f"{names}: damaged ({reason}); delete it, or put a whole file there"
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
    """The archive that is there, if it is whole and made of the same things in the same way."""
    if not path.exists():
        return None
    notice = reporter.notice if reporter is not None else lambda message: None
    try:
        archive = GraphArchive.open(path)
    except DamagedError as error:
        notice(f"{error}; the archive is built anew")
        return None
    there = dict(archive.meta.get("origin", {}))
    inputs, stamps = there.pop("inputs", {}), there.pop("stamps", {})
    if there != origin:
        notice(f"{path}: made by another version or in another way; built anew")
        return None
    # Where the raw files are not at hand, there is nothing it could have become stale against.
    named = None if files is None else named_files(files)
    if named is not None and (set(named) != set(inputs) or changed_files(named, inputs, stamps)):
        notice(f"{path}: the raw files have changed; built anew")
        return None
    return archive


def changed_files(
    files: dict[str, Path], inputs: dict[str, str], stamps: dict[str, list[int]]
) -> list[Path]:
    """The files that are not those of the checksums; a file with its old stamp is not read."""
    return [
        file
        for name, file in files.items()
        if stamps.get(name) != _stamp(file) and inputs.get(name) != file_digest(file)
    ]


def named_files(files: list[Path]) -> dict[str, Path]:
    """The files by their paths from the folder above the one that holds them all."""
    if not files:
        return {}
    whole = [Path(os.path.abspath(file)) for file in files]
    folder = Path(os.path.commonpath([file.parent for file in whole])).parent
    return {file.relative_to(folder).as_posix(): file for file in whole}


def _stamp(file: Path) -> list[int]:
    """The size of a file and when it was last written."""
    status = file.stat()
    return [status.st_size, status.st_mtime_ns]


def _locked(path: Path, reporter: Reporter) -> FileLock:
    """The lock of a folder that is to be written; says so where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        reporter.say(f"waiting for another process that prepares {path.name}")
        lock.acquire()
    return lock
