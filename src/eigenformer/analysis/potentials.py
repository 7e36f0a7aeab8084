r"""How the potential of a pair of nodes depends on the frequency.

The potential of nodes i and j under frequency k is :math:`\sigma_k[i,j] = u_k[i] u_k[j]`. Its mean
over a graph's adjacent pairs is :math:`u_k^\top A u_k / \sum A`, and over its other pairs
:math:`((1^\top u_k)^2 - 1 - u_k^\top A u_k) / (n (n-1) - \sum A)`, for :math:`u_k` has length 1: no
pair is ever visited. Both are quadratic in :math:`u_k`, so their sum over an eigenspace is the
trace of a fixed matrix with the projection onto it. All of an eigenspace has one eigenvalue, and
counts as many times as it has dimensions: the choice of a basis changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.analysis.adjacency import adjacency_matrices, spread
from eigenformer.data.archive import GraphArchive
from eigenformer.data.errors import DataError
from eigenformer.data.spectra import Spectra, find_spectra, memory_spectra, spectra_of

# Entries of the arrays that are held at once.
_CHUNK_ENTRIES = 1 << 22
# The kernel ends here, in bandwidths.
_REACH = 3.0
# Fewer graphs than this around an eigenvalue are no mean worth drawing.
_FEWEST = 10


@dataclass(frozen=True, eq=False)
class Curve:
    """A mean over the spectrum; NaN where too few graphs have eigenvalues.

    Args:
        mean: ``[points]``.
        error: ``[points]``, its standard error, graphs being what is drawn at random.
        spread: ``[points]``, the standard deviation around it, over the eigenvalues of all graphs.
    """

    mean: np.ndarray
    error: np.ndarray
    spread: np.ndarray


@dataclass(frozen=True, eq=False)
class Potentials:
    """The smoothed mean potential against the eigenvalue.

    Args:
        name: Of the graphs.
        graphs: How many there were.
        bandwidth: Of the Gaussian that the eigenvalues are smoothed with.
        eigenvalues: ``[points]`` over [0, 2].
        adjacent: Of pairs that are an edge.
        others: Of two different nodes that are none.
    """

    name: str
    graphs: int
    bandwidth: float
    eigenvalues: np.ndarray
    adjacent: Curve
    others: Curve


def cached_spectra(archive: GraphArchive, folders: Iterable[Path]) -> Spectra | None:
    """The full spectra of an archive, mapped and not read through; None where there are none."""
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
    """The mean potentials of a set of graphs.

    Args:
        name: What to call it.
        archive: The graphs.
        spectra: Their full spectra; None to compute those that are needed.
        limit: How many graphs to take, evenly from all of them (default: all).
        bandwidth: Of the smoothing.
        points: Of the curves.
    """
    if not len(archive):
        raise DataError(f"{name}: there are no graphs")
    chosen = spread(len(archive), limit)
    count = len(chosen)
    if spectra is None:
        archive = archive.subset(chosen)
        spectra, chosen = memory_spectra(archive), np.arange(count)
    places = np.linspace(0, 2, points)
    sums = {kind: _RatioSums(points) for kind in ("adjacent", "others")}
    for eigenvalues, means in _graph_means(archive, spectra, chosen, points):
        # ``[graphs, eigenvalues, points]``: how much each eigenvalue says about each point.
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
    """Graphs of one size at a time: their eigenvalues ``[graphs, k]``, and for each of them the
    mean potential of adjacent and of other pairs, NaN where a graph has none.
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
    """What a ratio of two sums over graphs, and its standard error, are made from."""

    def __init__(self, points: int) -> None:
        self.values, self.weights = np.zeros(points), np.zeros(points)
        self.squares, self.products, self.weight_squares = np.zeros((3, points))
        self.value_squares = np.zeros(points)

    def add(self, values: np.ndarray, weights: np.ndarray) -> None:
        """Takes in graphs: values ``[graphs, k]``, weights ``[graphs, k, points]``."""
        value = np.einsum("gk,gkp->gp", values, weights)
        weight = weights.sum(1)
        self.values += value.sum(0)
        self.weights += weight.sum(0)
        self.squares += (value**2).sum(0)
        self.products += (value * weight).sum(0)
        self.weight_squares += (weight**2).sum(0)
        self.value_squares += np.einsum("gk,gkp->p", values**2, weights)

    def curve(self, fewest: float) -> Curve:
        """The weighted mean, where enough graphs have a say, and its error."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = self.values / self.weights
            # Σ (value − mean · weight)² over graphs, as for any ratio of sums.
            residuals = self.squares - 2 * mean * self.products + mean**2 * self.weight_squares
            error = np.sqrt(np.maximum(residuals, 0)) / self.weights
            spread = np.sqrt(np.maximum(self.value_squares / self.weights - mean**2, 0))
            enough = self.weights**2 / self.weight_squares >= fewest - 1e-9
        return Curve(*(np.where(enough, part, np.nan) for part in (mean, error, spread)))
