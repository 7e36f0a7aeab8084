"""What is in the cache: which graphs, where, how large, and what they look like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eigenformer.data.archive import GraphArchive
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.errors import DamagedError, DataError
from eigenformer.data.fields import Task
from eigenformer.data.sources import Sources
from eigenformer.data.spectra import cache_folder
from eigenformer.data.statistics import Statistics
from eigenformer.data.store import MANIFEST, folder_bytes
from eigenformer.nearest import unknown


@dataclass(frozen=True)
class Entry:
    """One archive, or a benchmark that is not prepared yet.

    Args:
        name: Its name.
        path: Its folder; None where there is none.
        archive_bytes: The size of the archive.
        spectra_bytes: The size of its full spectra; None where they are not computed.
        statistics: Counts of its graphs.
        task: What is predicted.
        problem: What is wrong with it, if anything.
    """

    name: str
    path: Path | None = None
    archive_bytes: int = 0
    spectra_bytes: int | None = None
    statistics: Statistics | None = None
    task: Task | None = None
    problem: str = ""


def list_entries(sources: Sources) -> list[Entry]:
    """The seven benchmarks first, prepared or not, then every other archive in the cache."""
    names = list(BENCHMARKS)
    if sources.cache_dir.is_dir():
        found = (manifest.parent.name for manifest in sources.cache_dir.glob(f"*/{MANIFEST}"))
        names += sorted(name for name in found if name not in names and name[0] != ".")
    return [entry(sources.cache_dir / name, sources) for name in names]


def entry(path: Path, sources: Sources) -> Entry:
    """What can be said of one folder without reading all of it."""
    if not path.is_dir():
        return Entry(path.name)
    try:
        archive = GraphArchive.open(path, verify=False)
    except DamagedError as error:
        return Entry(path.name, path, folder_bytes(path), problem=str(error))
    spectra = _spectra_folder(archive, sources)
    return Entry(
        name=path.name,
        path=path,
        archive_bytes=folder_bytes(path),
        spectra_bytes=None if spectra is None else folder_bytes(spectra),
        statistics=archive.statistics,
        task=archive.task,
    )


def find_archive(name_or_path: str, sources: Sources) -> Path:
    """The folder of an archive, by its path or by its name in the cache."""
    for path in (Path(name_or_path), sources.cache_dir / name_or_path):
        if (path / MANIFEST).is_file():
            return path
    if name_or_path in BENCHMARKS:
        raise DataError(
            f"{name_or_path}: not prepared yet; run  eigenformer data prepare {name_or_path}"
        )
    known = [item.name for item in list_entries(sources)]
    raise DataError(unknown(f"'{name_or_path}'", name_or_path, known))


def _spectra_folder(archive: GraphArchive, sources: Sources) -> Path | None:
    for folder in (None, sources.cache_dir / "spectra"):
        path = cache_folder(archive, None, folder)
        if path.is_dir():
            return path
    return None
