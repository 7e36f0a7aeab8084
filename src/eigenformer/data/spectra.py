"""The spectra of an archive: computed once, kept on disk, memory-mapped when read.

The eigenpairs of all graphs are packed into two float32 arrays, ordered by the size of the graphs.
This is also the order of computation: graphs of the same size are decomposed together. The name of
the cache's folder is a key of the graphs' structure and the settings. Different graphs or settings
therefore have different folders, and two archives of the same graphs share one.

Spectra are computed in chunks and appended to the arrays, so that memory holds one chunk at a
time. The folder gets its final name after the last chunk. A killed process starts from the
beginning: the largest benchmark, CIFAR10, takes about two minutes on two cores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock

from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DamagedError, DataError, Problem
from eigenformer.data.fields import graph_place
from eigenformer.data.store import (
    GrowingArray,
    open_store,
    read_manifest,
    remove_leftovers,
    replace_folder,
    save_array,
    seal,
    temporary_folder,
)
from eigenformer.reporting import Reporter

if TYPE_CHECKING:
    from torch import Tensor

    from eigenformer.spectrum import Spectrum

ALGORITHM = 1
"""Version of the computation. It increases whenever spectra come out differently; older caches are
then ignored."""

_KIND = "spectrum"
_PLACES = ("counts", "value_starts", "vector_starts")

# Eigenvector entries per chunk: a few seconds of work, 64 MB.
_CHUNK_ENTRIES = 1 << 24
_CHUNK_GRAPHS = 4096


@dataclass(frozen=True)
class Spectra:
    """The eigenpairs of all graphs of an archive.

    Args:
        eigenvalues: The eigenvalues of all graphs, packed.
        eigenvectors: The matrices U of all graphs, packed, each in row-major order.
        counts: The number of frequencies per graph.
        value_starts: Where each graph's eigenvalues begin.
        vector_starts: Where each graph's eigenvectors begin.
        num_frequencies: The requested number of frequencies; None for all.
        path: The folder of the cache; None for spectra in memory.
        structure: The checksum of the graphs' structure; None if it is not needed.
    """

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray
    counts: np.ndarray
    value_starts: np.ndarray
    vector_starts: np.ndarray
    num_frequencies: int | None
    path: Path | None = None
    structure: str | None = None

    def graph(self, index: int, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the eigenvalues ``[k]`` and eigenvectors ``[num_nodes, k]`` of one graph."""
        count, value = int(self.counts[index]), int(self.value_starts[index])
        vector = int(self.vector_starts[index])
        vectors = self.eigenvectors[vector : vector + num_nodes * count]
        return self.eigenvalues[value : value + count], vectors.reshape(num_nodes, count)


def spectra_of(
    archive: GraphArchive,
    num_frequencies: int | None = None,
    folder: Path | None = None,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> Spectra:
    """Returns the spectra of an archive. Computes them if their cache is missing or damaged.

    Args:
        archive: The graphs.
        num_frequencies: Keep this many of the lowest frequencies, rounded outwards to whole
            eigenspaces (default: all).
        folder: The folder of all caches (default: ``spectra``, beside the archive).
        workers: Number of threads (default: all cores).
        reporter: Prints messages and progress.
    """
    reporter = reporter or Reporter()
    _check_sizes(archive, num_frequencies)
    final = cache_folder(archive, num_frequencies, folder)
    if final.exists():
        try:
            return _open(final, archive, num_frequencies)
        except DamagedError as error:
            reporter.notice(f"{error}; recomputing the spectra")
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.with_name(f"{final.name}.lock")):
        try:  # another process may have finished in the meantime
            return _open(final, archive, num_frequencies)
        except DamagedError:
            pass
        remove_leftovers(final)
        _compute(archive, num_frequencies, final, workers, reporter)
    return _open(final, archive, num_frequencies)


def memory_spectra(
    archive: GraphArchive, num_frequencies: int | None = None, workers: int | None = None
) -> Spectra:
    """Computes the spectra of an archive in memory, without a cache."""
    spectra = solve(archive, np.arange(len(archive)), num_frequencies, workers)
    counts = np.array([len(s.eigenvalues) for s in spectra], dtype=np.int32)
    return Spectra(
        eigenvalues=_packed([spectrum.eigenvalues for spectrum in spectra]),
        eigenvectors=_packed([spectrum.eigenvectors for spectrum in spectra]),
        counts=counts,
        value_starts=_starts(counts),
        vector_starts=_starts(counts * archive.num_nodes),
        num_frequencies=num_frequencies,
    )


def _packed(parts: Sequence[Tensor]) -> np.ndarray:
    """Returns tensors as one array in single precision."""
    arrays = [np.zeros(0), *(part.numpy().reshape(-1) for part in parts)]
    return np.concatenate(arrays, dtype=np.float32, casting="same_kind")


def find_spectra(archive: GraphArchive, folders: Iterable[Path]) -> dict[Path, int | None]:
    """Returns an archive's finished caches in these folders, each with its ``num_frequencies``."""
    content, found = archive.structure_hash(), {}
    for path in (path for folder in folders for path in sorted(folder.glob("*"))):
        try:
            count = read_manifest(path, _KIND)["meta"].get("k")
        except DamagedError:
            count = None  # the name below still identifies a full spectrum
        if path.is_dir() and path.name == _key(content, count):
            found[path] = count
    return found


def verify_spectra(path: Path) -> None:
    """Compares every checksum of a cache. Raises an error that names a file that does not match."""
    try:
        open_store(path, _KIND, verify=True)
    except DamagedError as error:
        again = "delete its folder, or run `data prepare` to recompute it"
        raise DamagedError(f"{error}; {again}") from None


def cache_folder(
    archive: GraphArchive, num_frequencies: int | None, folder: Path | None = None
) -> Path:
    """Returns the cache folder for these graphs and settings."""
    return (folder or default_folder(archive)) / _key(archive.structure_hash(), num_frequencies)


def default_folder(archive: GraphArchive) -> Path:
    """Returns the folder of an archive's caches if none is given: ``spectra``, beside it."""
    if archive.path is None:
        raise DataError("an archive in memory has no cache folder: save it, or pass a folder")
    return archive.path.parent / "spectra"


def _key(structure: hashlib._Hash, num_frequencies: int | None) -> str:
    """Returns a cache's name, which depends on the graphs' structure and the settings."""
    content = structure.copy()
    settings = {"k": num_frequencies, "dtype": "float32", "algorithm": ALGORITHM}
    content.update(json.dumps(settings).encode())
    return content.hexdigest()[:24]


def _check_sizes(archive: GraphArchive, num_frequencies: int | None) -> None:
    from eigenformer.spectrum import MAX_DENSE_NODES

    if num_frequencies is not None and num_frequencies < 1:
        raise DataError(f"num_frequencies: must be at least 1, got {num_frequencies}")
    large = np.flatnonzero(archive.num_nodes > MAX_DENSE_NODES)
    if num_frequencies is None and len(large):
        index = int(large[0])
        place, nodes = graph_place(index, archive.names), int(archive.num_nodes[index])
        raise DataError(
            f"{archive.path or 'archive'}: {place} has {nodes} nodes; its full "
            f"spectrum would take {32 * nodes**2 / 2**30:.0f} GB to compute (the limit is "
            f"{MAX_DENSE_NODES} nodes): keep the lowest frequencies only, for example "
            f"num_frequencies=64"
        )


def _open(path: Path, archive: GraphArchive, num_frequencies: int | None) -> Spectra:
    store = open_store(path, _KIND)
    if store.meta.get("key") != path.name:
        reason = "belongs to other graphs or settings"
        raise DamagedError(Problem(str(path / "manifest.json"), reason))
    if set(store.arrays) != {"eigenvalues", "eigenvectors", *_PLACES}:
        raise DamagedError(Problem(str(path / "manifest.json"), "other arrays than a spectrum has"))
    # In memory, so that the places cannot change: only the large arrays are mapped.
    places = {name: np.array(store.arrays[name]) for name in _PLACES}
    spectra = Spectra(
        **{**store.arrays, **places},
        num_frequencies=num_frequencies,
        path=path,
        structure=archive.structure,
    )
    _check_places(spectra, archive.num_nodes)
    return spectra


def _check_places(spectra: Spectra, num_nodes: np.ndarray) -> None:
    """Raises an error if an eigenpair would lie outside its array, as in a forged cache."""
    counts = spectra.counts
    whole = counts.dtype.kind == "i" and counts.shape == num_nodes.shape
    if not (whole and ((counts > 0) & (counts <= num_nodes)).all()):
        raise DamagedError(Problem(str(spectra.path), "its counts do not fit the graphs"))
    for starts, lengths, values in (
        (spectra.value_starts, counts, spectra.eigenvalues),
        (spectra.vector_starts, counts * num_nodes, spectra.eigenvectors),
    ):
        whole = (values.dtype, values.ndim, starts.dtype.kind) == (np.float32, 1, "i")
        whole = whole and starts.shape == lengths.shape
        if not (whole and ((starts >= 0) & (starts <= len(values) - lengths)).all()):
            raise DamagedError(Problem(str(spectra.path), "its eigenpairs are not where it says"))


def _compute(
    archive: GraphArchive,
    num_frequencies: int | None,
    final: Path,
    workers: int | None,
    reporter: Reporter,
) -> None:
    order = np.argsort(archive.num_nodes, kind="stable")
    packed: list[int] = []  # number of frequencies per graph, in this order
    with temporary_folder(final) as folder:
        with (
            GrowingArray(folder / "eigenvalues.npy") as values,
            GrowingArray(folder / "eigenvectors.npy") as vectors,
            reporter.step("spectra", len(archive)) as step,
        ):
            for start, end in chunks_of(archive.num_nodes[order], num_frequencies):
                spectra = solve(archive, order[start:end], num_frequencies, workers)
                for spectrum in spectra:
                    values.append(spectrum.eigenvalues.numpy())
                    vectors.append(spectrum.eigenvectors.numpy())
                packed += [len(spectrum.eigenvalues) for spectrum in spectra]
                step.advance(end - start)
        counts, value_starts, vector_starts = (
            np.empty(len(archive), t) for t in ("i4", "i8", "i8")
        )
        counts[order] = packed
        value_starts[order] = _starts(counts[order])
        vector_starts[order] = _starts(counts[order] * archive.num_nodes[order])
        places = {"counts": counts, "value_starts": value_starts, "vector_starts": vector_starts}
        for name, array in places.items():
            save_array(folder / f"{name}.npy", array)
        meta = {"key": final.name, "k": num_frequencies, "dtype": "float32", "algorithm": ALGORITHM}
        seal(folder, _KIND, meta)
        replace_folder(folder, final)


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Returns where each segment begins if segments of these lengths are laid end to end."""
    return np.cumsum(lengths, dtype=np.int64) - lengths


def chunks_of(sizes: np.ndarray, num_frequencies: int | None) -> list[tuple[int, int]]:
    """Returns ranges of graphs, sorted by size, whose eigenvectors fill about one chunk each."""
    entries = np.cumsum(sizes * np.minimum(sizes, num_frequencies or np.iinfo(np.int64).max))
    chunks, start = [], 0
    while start < len(sizes):
        before = entries[start - 1] if start else 0
        end = int(np.searchsorted(entries, before + _CHUNK_ENTRIES, side="right"))
        end = min(max(end, start + 1), start + _CHUNK_GRAPHS)
        chunks.append((start, end))
        start = end
    return chunks


def solve(
    archive: GraphArchive, graphs: np.ndarray, num_frequencies: int | None, workers: int | None
) -> list[Spectrum]:
    """Computes the spectra of some graphs of an archive in float64, in the given order."""
    import torch

    from eigenformer.spectrum import laplacian_spectra

    structures = []
    for graph in graphs:
        edges = slice(*archive.edge_offsets[graph : graph + 2])
        edge_index = torch.from_numpy(archive.edge_index[:, edges].astype(np.int64))
        structures.append((edge_index, int(archive.num_nodes[graph])))
    # Workers share the work graph by graph; threads within one graph would only get in the way.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return laplacian_spectra(structures, num_frequencies, workers)
    finally:
        torch.set_num_threads(threads)
