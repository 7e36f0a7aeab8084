r"""The encodings of an archive: node attributes computed from the structure, once, and cached.

An encoding is added to an archive as fields, so that batches have it like any other attribute. The
cache lies beside the spectra and is opened in the same way. Encodings are computed from spectra in
float64, in the same chunks as the spectra themselves, whether or not those are cached.

RWSE is exact for simple undirected graphs: the walk's matrix is :math:`P = D^{-1} A`, and

.. math::
    (P^k)_{ij} = \sqrt{d_j / d_i} \, \bigl( U (1 - \Lambda)^k U^\top \bigr)_{ij}

so that the diagonal needs no degrees. As in a spectrum, edges count in both directions, parallel
edges count once, and self-loops do not count. A walk never returns to an isolated node.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from filelock import FileLock

from eigenformer.config import EncodingSpec, LaplacianSpec, RandomWalkSpec
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DamagedError
from eigenformer.data.fields import Field, Level
from eigenformer.data.spectra import chunks_of, default_folder, solve
from eigenformer.data.store import open_store, remove_leftovers, write_store
from eigenformer.reporting import Reporter

ALGORITHM = 1
"""Version of the computation. It increases whenever encodings come out differently."""

_KIND = "encoding"


def with_encoding(
    archive: GraphArchive,
    encoding: EncodingSpec,
    folder: Path | None = None,
    workers: int | None = None,
    reporter: Reporter | None = None,
) -> GraphArchive:
    """Returns the archive with an encoding. Computes it if its cache is missing or damaged.

    The new fields are ``rwse`` ``[Σn, steps]``, or ``lappe`` ``[Σn, vectors]`` with the eigenvalues
    ``lappe_values`` ``[graphs, vectors]``, which are -1 where a graph is too small.

    Args:
        archive: The graphs.
        encoding: The encoding.
        folder: The folder of all caches (default: ``spectra``, beside the archive).
        workers: Number of threads (default: all cores).
        reporter: Prints messages and progress.
    """
    reporter = reporter or Reporter()
    final = (folder or default_folder(archive)) / _key(archive, encoding)
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.with_name(f"{final.name}.lock")):
        try:
            arrays = open_store(final, _KIND).arrays
        except DamagedError as error:
            if final.exists():
                reporter.notice(f"{error}; recomputing the encoding")
            remove_leftovers(final)
            computed = _compute(archive, encoding, workers, reporter)
            arrays = write_store(final, _KIND, computed, {"settings": _settings(encoding)}).arrays
    return _with_fields(archive, arrays)


def with_encoding_in_memory(
    archive: GraphArchive, encoding: EncodingSpec, workers: int | None = None
) -> GraphArchive:
    """Returns the archive with an encoding, computed without a cache."""
    return _with_fields(archive, _compute(archive, encoding, workers, Reporter()))


def _with_fields(archive: GraphArchive, arrays: dict[str, np.ndarray]) -> GraphArchive:
    for name, values in arrays.items():
        level: Level = "graph" if name == "lappe_values" else "node"
        archive = archive.with_field(name, Field(level, values, values.dtype))
    return archive


def _settings(encoding: EncodingSpec) -> dict[str, object]:
    # The width belongs to the network: networks of any width share one cache.
    used = {name: value for name, value in encoding.to_dict().items() if name != "width"}
    return {**used, "dtype": "float32", "algorithm": ALGORITHM}


def _key(archive: GraphArchive, encoding: EncodingSpec) -> str:
    content = archive.structure_hash()
    content.update(json.dumps(_settings(encoding)).encode())
    return content.hexdigest()[:24]


def _compute(
    archive: GraphArchive, encoding: EncodingSpec, workers: int | None, reporter: Reporter
) -> dict[str, np.ndarray]:
    order = np.argsort(archive.num_nodes, kind="stable")
    frequencies = encoding.vectors + 1 if isinstance(encoding, LaplacianSpec) else None
    arrays = _empty(archive, encoding)
    with reporter.step(f"encoding {encoding.kind}", len(archive)) as step:
        for start, end in chunks_of(archive.num_nodes[order], frequencies):
            graphs = order[start:end]
            for graph, spectrum in zip(
                graphs, solve(archive, graphs, frequencies, workers), strict=True
            ):
                rows = slice(*archive.node_offsets[graph : graph + 2])
                values, vectors = (part.numpy() for part in spectrum)
                if isinstance(encoding, RandomWalkSpec):
                    arrays["rwse"][rows] = return_probabilities(values, vectors, encoding.steps)
                    alone = _isolated(archive, graph)
                    arrays["rwse"][rows][alone] = 0.0
                else:
                    taken = slice(1, encoding.vectors + 1)
                    count = vectors[:, taken].shape[1]
                    arrays["lappe"][rows, :count] = vectors[:, taken]
                    arrays["lappe_values"][graph, :count] = values[taken]
            step.advance(end - start)
    return arrays


def return_probabilities(values: np.ndarray, vectors: np.ndarray, steps: int) -> np.ndarray:
    r"""Returns how likely walks of 1 to ``steps`` steps end where they began, ``[n, steps]``.

    Takes a full spectrum: this is the diagonal of :math:`U (1 - \Lambda)^k U^\top`.
    """
    powers = (1.0 - values)[:, None] ** np.arange(1, steps + 1)
    return np.square(vectors) @ powers


def _isolated(archive: GraphArchive, graph: int) -> np.ndarray:
    """Returns which nodes of a graph have no neighbour but themselves."""
    edges = archive.edge_index[:, slice(*archive.edge_offsets[graph : graph + 2])]
    alone = np.ones(int(archive.num_nodes[graph]), dtype=bool)
    alone[edges[:, edges[0] != edges[1]]] = False
    return alone


def _empty(archive: GraphArchive, encoding: EncodingSpec) -> dict[str, np.ndarray]:
    nodes = int(archive.node_offsets[-1])
    if isinstance(encoding, RandomWalkSpec):
        return {"rwse": np.zeros((nodes, encoding.steps), np.float32)}
    return {
        "lappe": np.zeros((nodes, encoding.vectors), np.float32),
        "lappe_values": np.full((len(archive), encoding.vectors), -1.0, np.float32),
    }
