"""Lists the archives in the cache with their folders, sizes and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eigenformer.data.archive import GraphArchive, is_archive
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.errors import DamagedError, DataError
from eigenformer.data.preparation import own_name
from eigenformer.data.spectra import find_spectra
from eigenformer.data.statistics import Statistics
from eigenformer.data.store import MANIFEST, folder_bytes
from eigenformer.data.workspace import Workspace
from eigenformer.nearest import unknown
from eigenformer.targets import Target


@dataclass(frozen=True)
class Entry:
    """One archive, or a benchmark that is not prepared yet.

    Args:
        name: The name of the archive or benchmark.
        path: The folder of the archive; None if there is none.
        archive_bytes: The size of the archive in bytes.
        spectra: The caches of its spectra, and the number of frequencies each keeps; None for all.
        statistics: Statistics of the graphs.
        target: The target to predict; None if there is none.
        problem: Why the archive cannot be opened; empty if it can.
    """

    name: str
    path: Path | None = None
    archive_bytes: int = 0
    spectra: Mapping[Path, int | None] = field(default_factory=dict)
    statistics: Statistics | None = None
    target: Target | None = None
    problem: str = ""


def list_entries(workspace: Workspace) -> list[Entry]:
    """Returns the seven benchmarks, prepared or not, then every other archive in the cache."""
    names = list(BENCHMARKS)
    if workspace.cache_dir.is_dir():
        found = (manifest.parent.name for manifest in workspace.cache_dir.glob(f"*/{MANIFEST}"))
        names += sorted(name for name in found if name not in names and name[0] != ".")
    return [entry(workspace.cache_dir / name, workspace) for name in names]


def entry(path: Path, workspace: Workspace) -> Entry:
    """Returns the entry of one folder without reading all of its contents."""
    if not path.is_dir():
        return Entry(path.name)
    try:
        archive = GraphArchive.open(path)
    except DamagedError as error:
        return Entry(path.name, path, folder_bytes(path), problem=str(error))
    return Entry(
        name=path.name,
        path=path,
        archive_bytes=folder_bytes(path),
        spectra=find_spectra(archive, spectra_folders(path, workspace)),
        statistics=archive.statistics,
        target=archive.target,
    )


def find_archive(name_or_path: str, workspace: Workspace) -> Path:
    """Returns the folder of an archive, given its path or its name in the cache."""
    for path in (Path(name_or_path), workspace.cache_dir / name_or_path):
        if is_archive(path):
            return path
    if name_or_path in BENCHMARKS:
        raise DataError(
            f"{name_or_path}: not prepared yet; run  eigenformer data prepare {name_or_path}"
        )
    if Path(name_or_path).exists():
        raise DataError(
            f"{name_or_path}: not prepared yet; run  eigenformer data prepare {name_or_path}  and "
            f"then  eigenformer data info {own_name(Path(name_or_path))}"
        )
    known = [item.name for item in list_entries(workspace)]
    raise DataError(unknown(f"'{name_or_path}'", name_or_path, known))


def spectra_folders(path: Path, workspace: Workspace) -> list[Path]:
    """Returns the folders that may hold the spectra of an archive: beside it, and in the cache."""
    folders = (path.absolute().parent / "spectra", workspace.spectra_dir)
    return list(dict.fromkeys(folders))
