"""Raw files → archive → spectra and encodings. Steps that are already done are skipped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eigenformer.config import BenchmarkData, DataConfig, EncodingSpec, ReadOptions, SplitOptions
from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.benchmarks import BENCHMARKS, benchmark, builder
from eigenformer.data.building import build_archive, changed_files, named_files
from eigenformer.data.encodings import with_encoding
from eigenformer.data.errors import DamagedError, DataError, Problem
from eigenformer.data.reading import check_used, own_files, read_own
from eigenformer.data.spectra import Spectra, spectra_of
from eigenformer.data.tables import SUFFIXES
from eigenformer.data.workspace import Workspace

if TYPE_CHECKING:
    from eigenformer.data.batching import GraphDataset

BUILD_VERSION = 1
"""Version of the benchmarks' archives. It increases whenever a benchmark comes out differently;
older archives are then rebuilt."""

OWN_VERSION = 4
"""Version of the archives of the user's own graphs. It works like :data:`BUILD_VERSION`."""

_SHOWN = 20


@dataclass(frozen=True)
class Prepared:
    """Prepared graphs: their archive, and their spectra if requested."""

    name: str
    archive: GraphArchive
    spectra: Spectra | None

    def dataset(self, split: str | None = None) -> GraphDataset:
        """Returns the graphs of one split (``train``, ``val``, ``test``), or all graphs."""
        from eigenformer.data.batching import GraphDataset

        return GraphDataset(self.archive, self.spectra, split)


def prepare(
    name: str,
    workspace: Workspace | None = None,
    *,
    num_frequencies: int | None = None,
    size: int | None = None,
    seed: int = 0,
    official: bool = False,
    with_spectra: bool = True,
    encoding: EncodingSpec | None = None,
) -> Prepared:
    """Prepares a benchmark for training. Existing, undamaged results are reused.

    Args:
        name: The name of one of the seven benchmarks.
        workspace: Where raw files and results are (default: taken from the environment).
        num_frequencies: Keep this many of the lowest frequencies (default: all).
        size: The number of graphs, for ``pattern`` and ``cluster``.
        seed: The random seed, for ``pattern`` and ``cluster``.
        official: Download the published graphs of ``pattern`` and ``cluster``.
        with_spectra: Whether to compute the spectra.
        encoding: An encoding to add to the graphs.
    """
    benchmark(name)
    _check_count(num_frequencies)
    workspace = workspace or Workspace.resolve()
    chosen = {"size": size, "seed": seed, "official": official}
    origin = {"benchmark": name, "version": BUILD_VERSION, "settings": chosen}
    make = builder(name, size, seed, official)
    archive = build_archive(
        workspace.cache_dir / folder_name(name, size, seed, official),
        origin,
        lambda: workspace.locate(name, make.layouts) if make.layouts else [],
        lambda files: make.build(files, workspace.reporter, workspace.limits),
        workspace.reporter,
        partial(workspace.fetch, name, make.layouts) if make.layouts else None,
    )
    if found := differences(BenchmarkData(name, size=size), archive):
        workspace.reporter.notice(f"{archive.path}: {not_the_papers(name, found)}")
    folder, spectra = workspace.spectra_dir, None
    if with_spectra:
        spectra = _spectra(archive, num_frequencies, folder, workspace)
    return Prepared(name, _encoded(archive, encoding, folder, workspace), spectra)


def differences(config: DataConfig, archive: GraphArchive) -> list[str]:
    """Returns how the graphs of a whole benchmark differ from those of the paper."""
    if not isinstance(config, BenchmarkData) or config.size is not None:
        return []
    return benchmark(config.dataset).differences(archive.statistics)


def not_the_papers(name: str, found: Sequence[str]) -> str:
    """Returns what to say about a benchmark with these differences."""
    return f"not the {name} of the paper ({'; '.join(found)}): results cannot be compared"


def folder_name(name: str, size: int | None = None, seed: int = 0, official: bool = False) -> str:
    """Returns the name of a benchmark's folder in the cache. Each choice has its own folder."""
    parts = [name]
    if size is not None:
        parts.append(f"n{size}")
    if seed:
        parts.append(f"seed{seed}")
    if official:
        parts.append("official")
    return "-".join(parts)


def prepare_own(
    path: str | Path,
    options: ReadOptions | None = None,
    name: str | None = None,
    workspace: Workspace | None = None,
    *,
    split: SplitOptions | None = None,
    num_frequencies: int | None = None,
    with_spectra: bool = True,
    encoding: EncodingSpec | None = None,
) -> Prepared:
    """Prepares the user's own graphs for training. Rows that gave no graph are reported.

    Args:
        path: A table of molecules, a folder of graphs in any form, or an archive.
        options: How to read the graphs.
        name: The name in the cache (default: the name of the file or folder).
        workspace: Where results go (default: taken from the environment).
        split: How to split the graphs (default: the split in the data, if there is one).
        num_frequencies: Keep this many of the lowest frequencies (default: all).
        with_spectra: Whether to compute the spectra.
        encoding: An encoding to add to the graphs.
    """
    path, options, split = Path(path), options or ReadOptions(), split or SplitOptions()
    workspace = workspace or Workspace.resolve()
    folder, reporter = None, workspace.reporter
    _check_count(num_frequencies)
    check_used(options, split, path)
    if is_archive(path):
        if name is not None:
            raise DataError(f"name: does not apply to an archive, which is not copied ({path})")
        archive = GraphArchive.open(path, check=True, limits=workspace.limits)
        name = path.resolve().name
    else:
        name = own_name(path) if name is None else name
        _check_name(name)
        whole = path.resolve()
        files = own_files(whole)
        _check_free(workspace.cache_dir / name, name, whole)
        folder = workspace.spectra_dir
        settings = {**options.to_dict(), **split.to_dict()}
        origin = {"own": str(whole), "version": OWN_VERSION, "settings": settings}
        make = partial(_import, path, options, split, workspace)
        archive = build_archive(workspace.cache_dir / name, origin, lambda: files, make, reporter)
    rejected = archive.meta.get("rejected", [])
    for row in rejected[:_SHOWN]:
        reporter.notice(str(Problem(str(path), row["reason"], row["line"])))
    if rejected:
        kept = f"{len(archive)} graphs read; the archive's meta['rejected'] lists the rejected rows"
        reporter.notice(f"{path}: {len(rejected)} rows rejected, {kept}")
    spectra = _spectra(archive, num_frequencies, folder, workspace) if with_spectra else None
    return Prepared(name, _encoded(archive, encoding, folder, workspace), spectra)


def _spectra(
    archive: GraphArchive, num_frequencies: int | None, folder: Path | None, workspace: Workspace
) -> Spectra:
    return spectra_of(archive, num_frequencies, folder, workspace.workers, workspace.reporter)


def _encoded(
    archive: GraphArchive, encoding: EncodingSpec | None, folder: Path | None, workspace: Workspace
) -> GraphArchive:
    if encoding is None:
        return archive
    return with_encoding(archive, encoding, folder, workspace.workers, workspace.reporter)


def _check_count(num_frequencies: int | None) -> None:
    """Raises an error for an invalid count, before any long work starts."""
    if num_frequencies is not None and num_frequencies < 1:
        raise DataError(f"num_frequencies: must be at least 1, got {num_frequencies}")


def own_name(path: Path) -> str:
    """Returns the name of a file or folder in the cache: its own, without a table's suffix."""
    name = path.resolve().name
    lower = name.lower().removesuffix(".gz")
    suffix = next((s for s in SUFFIXES if lower.endswith(s)), "")
    return name[: len(lower) - len(suffix)] if suffix and path.is_file() else name


def _check_name(name: str) -> None:
    """Raises an error if ``name`` is that of another folder of the cache, or leads outside it."""
    benchmark_folder = rf"({'|'.join(BENCHMARKS)})(-n\d+)?(-seed\d+)?(-official)?"
    if re.fullmatch(benchmark_folder, name):
        raise DataError(f"name: '{name}' is a benchmark's name; choose another (--name)")
    if name in ("raw", "spectra") or not re.fullmatch(r"[^./\\][^/\\]*", name):
        raise DataError(
            f"name: '{name}' cannot be a name in the cache: it must not be empty, 'raw' or "
            f"'spectra', contain '/' or start with a dot; choose another (--name)"
        )


def _check_free(folder: Path, name: str, path: Path) -> None:
    """Raises an error if the name is taken by other data of the user that still exist."""
    try:
        owner = Path(GraphArchive.open(folder).meta["origin"]["own"])
    except (DamagedError, KeyError, TypeError):
        return
    if owner != path and owner.exists():
        raise DataError(f"name: '{name}' is taken by {owner}; choose another (--name)")


def _import(
    path: Path, options: ReadOptions, split: SplitOptions, workspace: Workspace, files: list[Path]
) -> GraphArchive:
    scratch = workspace.cache_dir  # as large as the archive
    return read_own(path, options, split, workspace.reporter, workspace.limits, scratch).archive


def changed_inputs(archive: GraphArchive, workspace: Workspace) -> list[Path] | None:
    """Returns the raw files whose checksums have changed since the archive was built.

    Returns None if this is unknown: the raw files are missing, or the archive was built without
    any.
    """
    origin = archive.meta.get("origin", {})
    files = None
    if "benchmark" in origin:
        layouts = builder(origin["benchmark"], **origin["settings"]).layouts
        files = workspace.locate(origin["benchmark"], layouts) if layouts else None
    elif "own" in origin and Path(origin["own"]).exists():
        files = own_files(Path(origin["own"]))
    return None if files is None else changed_files(named_files(files), origin["inputs"], {})
