"""What is in the cache: which graphs, where, how large, and what they look like."""

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
        name: Its name.
        path: Its folder; None where there is none.
        archive_bytes: The size of the archive.
        spectra: Its caches of spectra, and how many frequencies each keeps; None for all.
        statistics: Counts of its graphs.
        target: What is predicted; None where nothing is.
        problem: What is wrong with it, if anything.
    """

    name: str
    path: Path | None = None
    archive_bytes: int = 0
    spectra: Mapping[Path, int | None] = field(default_factory=dict)
    statistics: Statistics | None = None
    target: Target | None = None
    problem: str = ""


def list_entries(workspace: Workspace) -> list[Entry]:
    """The seven benchmarks first, prepared or not, then every other archive in the cache."""
    names = list(BENCHMARKS)
    if workspace.cache_dir.is_dir():
        found = (manifest.parent.name for manifest in workspace.cache_dir.glob(f"*/{MANIFEST}"))
        names += sorted(name for name in found if name not in names and name[0] != ".")
    return [entry(workspace.cache_dir / name, workspace) for name in names]


def entry(path: Path, workspace: Workspace) -> Entry:
    """What can be said of one folder without reading all of it."""
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
    """The folder of an archive, by its path or by its name in the cache."""
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
    """Where the spectra of an archive may be: beside it, and in the cache."""
    folders = (path.absolute().parent / "spectra", workspace.spectra_dir)
    return list(dict.fromkeys(folders))
