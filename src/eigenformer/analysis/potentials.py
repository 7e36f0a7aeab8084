r"""How the potential of a pair of nodes depends on the frequency.

The potential of nodes i and j under frequency k is :math:`\sigma_k[i,j] = u_k[i] u_k[j]`. Its mean
over a graph's adjacent pairs is :math:`u_k^\top A u_k / \sum A`, and over its other pairs
:math:`((1^\top u_k)^2 - 1 - u_k^\top A u_k) / (n (n-1) - \sum A)`, because :math:`u_k` has length
one. No pair has to be visited. Both means are quadratic in :math:`u_k`, so their sum over an
eigenspace is the trace of a fixed matrix times the projection onto the eigenspace. An eigenspace
has a single eigenvalue and counts once per dimension. The choice of its basis therefore changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.analysis.adjacency import adjacency_matrices, evenly_spaced
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.spectra import Spectra, find_spectra, memory_spectra, spectra_of

# The number of array entries held in memory at once.
_CHUNK_ENTRIES = 1 << 22
# The kernel is cut off here, in bandwidths.
_REACH = 3.0
# With fewer graphs than this around an eigenvalue, the mean is not drawn.
_FEWEST = 10


@dataclass(frozen=True, eq=False)
class Curve:
    """A mean over the spectrum; NaN where too few graphs have eigenvalues.

    Args:
        mean: ``[points]``.
        error: ``[points]``, the standard error of the mean, with graphs as the random sample.
        spread: ``[points]``, the standard deviation over the eigenvalues of all graphs.
    """

    mean: np.ndarray
    error: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, eq=False)
class Potentials:
    """The smoothed mean potential against the eigenvalue.

    Args:
        name: The name of the set of graphs.
        graphs: The number of graphs.
        bandwidth: The width of the Gaussian that smooths over the eigenvalues.
        eigenvalues: ``[points]`` over [0, 2].
        adjacent: The curve of adjacent pairs.
        others: The curve of pairs of different nodes that are not adjacent.
    """

    name: str
    graphs: int
    bandwidth: float
    eigenvalues: np.ndarray
    adjacent: Curve
    others: Curve


def cached_spectra(archive: GraphArchive, folders: Iterable[Path]) -> Spectra | None:
    """Returns the full spectra of an archive, memory-mapped and unread; None if not cached."""
    for path, k in find_spectra(archive, folders).items():
        if k is None:
            return spectra_of(archive, folder=path.parent)
    return None


def mean_potentials(
    name: str,
    archive: GraphArchive,
    spectra: Spectra | None = None,
    limit: int | None = None,
    bandwidth: float = 0.04,
    points: int = 81,
) -> Potentials:
    """Returns the mean potentials of a set of graphs.

    Args:
        name: The name of the set.
        archive: The graphs.
        spectra: Their full spectra; None to compute the spectra that are needed.
        limit: The number of graphs to use, evenly spread over the archive (default: all).
        bandwidth: The width of the Gaussian that smooths over the eigenvalues.
        points: The number of points per curve.
    """
    if not len(archive):
        raise DataError(f"{name}: contains no graphs")
    chosen = evenly_spaced(len(archive), limit)
    count = len(chosen)
    if spectra is None:
        archive = archive.subset(chosen)
        spectra, chosen = memory_spectra(archive), np.arange(count)
    places = np.linspace(0, 2, points)
    sums = {kind: _RatioSums(points) for kind in ("adjacent", "others")}
    for eigenvalues, means in _graph_means(archive, spectra, chosen, points):
        # ``[graphs, eigenvalues, points]``: the weight of each eigenvalue at each point.
        apart = (eigenvalues[..., None] - places) / bandwidth
        weights = np.where(np.abs(apart) < _REACH, np.exp(-0.5 * apart**2), 0)
        for kind, values in means.items():
            known = ~np.isnan(values[:, 0])
            sums[kind].add(values[known], weights[known])
    curves = {kind: ratio.curve(min(_FEWEST, count)) for kind, ratio in sums.items()}
    return Potentials(name, count, bandwidth, places, curves["adjacent"], curves["others"])


def _graph_means(
    archive: GraphArchive, spectra: Spectra, chosen: np.ndarray, points: int
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yields, for graphs of one size at a time, their eigenvalues ``[graphs, k]`` and the mean
    potential of adjacent and of other pairs per eigenvalue, NaN if a graph has no such pairs.
    """
    sizes = archive.num_nodes[chosen]
    for n in np.unique(sizes):
        step = max(1, _CHUNK_ENTRIES // int(n * max(n, points)))
        same = chosen[sizes == n]
        for start in range(0, len(same), step):
            graphs = same[start : start + step]
            pairs = [spectra.graph(int(graph), int(n)) for graph in graphs]
            values, vectors = (np.stack(part) for part in zip(*pairs, strict=True))
            adjacency = adjacency_matrices(archive, graphs, int(n))
            degrees = adjacency.sum((1, 2), dtype=np.float64)[:, None]
            edges = np.einsum("gik,gik->gk", adjacency @ vectors, vectors, dtype=np.float64)
            every = vectors.sum(1, dtype=np.float64) ** 2 - 1
            with np.errstate(divide="ignore", invalid="ignore"):
                adjacent = np.where(degrees > 0, edges / degrees, np.nan)
                rest = n * (n - 1) - degrees
                others = np.where(rest > 0, (every - edges) / rest, np.nan)
            yield values, {"adjacent": adjacent, "others": others}


class _RatioSums:
    """Accumulates a ratio of two sums over graphs, with its standard error."""

    def __init__(self, points: int) -> None:
        self.values, self.weights = np.zeros(points), np.zeros(points)
        self.squares, self.products, self.weight_squares = np.zeros((3, points))
        self.value_squares = np.zeros(points)

    def add(self, values: np.ndarray, weights: np.ndarray) -> None:
        """Adds graphs: values ``[graphs, k]``, weights ``[graphs, k, points]``."""
        value = np.einsum("gk,gkp->gp", values, weights)
        weight = weights.sum(1)
        self.values += value.sum(0)
        self.weights += weight.sum(0)
        self.squares += (value**2).sum(0)
        self.products += (value * weight).sum(0)
        self.weight_squares += (weight**2).sum(0)
        self.value_squares += np.einsum("gk,gkp->p", values**2, weights)

    def curve(self, fewest: float) -> Curve:
        """Returns the weighted mean and its error; NaN where too few graphs contribute."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.values / self.weights
            # Σ (value − mean · weight)² over graphs, as for any ratio of sums.
            residuals = self.squares - 2 * mean * self.products + mean**2 * self.weight_squares
            error = np.sqrt(np.maximum(residuals, 0)) / self.weights
            spread = np.sqrt(np.maximum(self.value_squares / self.weights - mean**2, 0))
            enough = self.weights**2 / self.weight_squares >= fewest - 1e-9
        return Curve(*(np.where(enough, part, np.nan) for part in (mean, error, spread)))
