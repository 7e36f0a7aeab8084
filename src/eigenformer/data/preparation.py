"""Raw files → archive → spectra, each step only where it is not done yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from eigenformer.data.archive import GraphArchive
from eigenformer.data.benchmarks import Builder, benchmark, builder
from eigenformer.data.errors import DamagedError
from eigenformer.data.progress import Reporter
from eigenformer.data.sources import Sources
from eigenformer.data.spectra import Spectra, spectra_of
from eigenformer.data.store import file_digest, remove_leftovers

if TYPE_CHECKING:
    from eigenformer.data.batching import GraphDataset

BUILD_VERSION = 1
"""Raised whenever a benchmark comes out differently: older archives are then rebuilt."""


@dataclass(frozen=True)
class Prepared:
    """Graphs that are ready: their archive, and their spectra where they were asked for."""

    name: str
    archive: GraphArchive
    spectra: Spectra | None

    def dataset(self, split: str | None = None) -> GraphDataset:
        """One part of it (``train``, ``val``, ``test``), or all of it."""
        from eigenformer.data.batching import GraphDataset

        return GraphDataset(self.archive, self.spectra, split)


def prepare(
    name: str,
    raw_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    k: int | None = None,
    size: int | None = None,
    seed: int = 0,
    official: bool = False,
    with_spectra: bool = True,
    workers: int | None = None,
    report: Reporter | None = None,
) -> Prepared:
    """A benchmark, ready to train on. What is there already, and whole, is used as it is.

    Args:
        name: One of the seven.
        raw_dir: A folder with its raw files (default: ``EIGENFORMER_RAW_DIR``).
        cache_dir: Where results go (default: ``EIGENFORMER_CACHE_DIR``, then the user's cache).
        k: Keep the k lowest frequencies (default: all).
        size: Number of graphs, for ``pattern`` and ``cluster``.
        seed: For ``pattern`` and ``cluster``.
        official: The published graphs of ``pattern`` and ``cluster``, downloaded.
        with_spectra: Whether to compute the spectra.
        workers: Threads (default: all cores).
        report: What to tell whom.
    """
    report = report or Reporter()
    benchmark(name)
    sources = Sources.resolve(raw_dir, cache_dir)
    chosen = {"size": size, "seed": seed, "official": official}
    make = builder(name, size, seed, official)
    path = sources.cache_dir / folder_name(name, size, seed, official)
    archive = _archive(name, make, chosen, path, sources, report)
    spectra = None
    if with_spectra:
        spectra = spectra_of(archive, k, sources.cache_dir / "spectra", workers, report)
    return Prepared(name, archive, spectra)


def folder_name(name: str, size: int | None = None, seed: int = 0, official: bool = False) -> str:
    """The folder of a benchmark in the cache; each choice has its own."""
    parts = [name]
    if size is not None:
        parts.append(f"n{size}")
    if seed:
        parts.append(f"seed{seed}")
    if official:
        parts.append("official")
    return "-".join(parts)


def locked(path: Path, report: Reporter) -> FileLock:
    """The lock of a folder that is to be written; says so where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report.say(f"waiting for another process that prepares {path.name}")
        lock.acquire()
    return lock


def _archive(
    name: str,
    make: Builder,
    chosen: Mapping[str, Any],
    path: Path,
    sources: Sources,
    report: Reporter,
) -> GraphArchive:
    lock = locked(path, report)
    try:
        remove_leftovers(path)
        origin = {"benchmark": name, "version": BUILD_VERSION, "settings": dict(chosen)}
        files = sources.locate(name, make.layouts)
        archive = _current(path, origin, None if files is None else _inputs(files), report)
        if archive is not None:
            return archive
        files = sources.fetch(name, make.layouts, report) if make.layouts else []
        report.say(f"{name}: building the archive in {path}")
        built = make.build(files, report)
        built.meta["origin"] = {**origin, "inputs": _inputs(files)}
        return built.save(path)
    finally:
        lock.release()


def _current(
    path: Path, origin: dict[str, Any], inputs: dict[str, str] | None, report: Reporter
) -> GraphArchive | None:
    """The archive that is there, if it is whole and made of the same things in the same way."""
    if not path.exists():
        return None
    try:
        archive = GraphArchive.open(path)
    except DamagedError as error:
        report.notice(f"{error}; the archive is built anew")
        return None
    there = dict(archive.meta.get("origin", {}))
    used = there.pop("inputs", None)
    if there != origin:
        report.notice(f"{path}: made by another version or in another way; built anew")
        return None
    # Where the raw files are not at hand, there is nothing it could have become stale against.
    if inputs is not None and inputs != used:
        report.notice(f"{path}: the raw files have changed; built anew")
        return None
    return archive


def _inputs(files: list[Path]) -> dict[str, str]:
    return {file.name: file_digest(file) for file in files}
