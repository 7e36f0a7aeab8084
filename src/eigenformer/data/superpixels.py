"""MNIST and CIFAR10: pictures as graphs of superpixels, each joined to its eight nearest ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.benchmarking_gnns import benchmark_file, packed_structure, read_benchmark
from eigenformer.data.building import Builder
from eigenformer.data.errors import DataError, Problem
from eigenformer.data.fields import SPLITS, Field
from eigenformer.data.packed import read_npz
from eigenformer.data.workspace import RawFile
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter
from eigenformer.targets import ClassTarget

NEIGHBOURS = 8
_CLASSES = {
    "mnist": tuple(str(digit) for digit in range(10)),
    "cifar10": (
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
}
_SIDES = {"mnist": 28, "cifar10": 32}
# Number of node pairs that a thread processes at once: few enough to stay in its cache.
_BLOCK_PAIRS = 1 << 17


@dataclass(frozen=True)
class Superpixels:
    """The superpixels of many pictures, packed: colour in [0, 1], position in (row, column).

    Args:
        sizes: Number of superpixels per picture.
        colour: ``[Σn, channels]``.
        position: ``[Σn, 2]``, in units of the picture's side.
    """

    sizes: np.ndarray
    colour: np.ndarray
    position: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Superpixels]) -> Superpixels:
        """Concatenates the pictures of all parts."""
        return cls(
            sizes=np.concatenate([part.sizes for part in parts]),
            colour=np.concatenate([part.colour for part in parts]),
            position=np.concatenate([part.position for part in parts]),
        )


def layouts(name: str) -> tuple[tuple[RawFile, ...], ...]:
    """Returns the files to read: sums over superpixels in a local copy, or the official graphs."""
    return tuple(RawFile(f"{split}.npz") for split in SPLITS), (benchmark_file(name),)


def builder(name: str) -> Builder:
    """Returns how a benchmark is built."""
    return Builder(layouts(name), partial(build, name))


def build(
    name: str, files: list[Path], reporter: Reporter, limits: Limits = DEFAULT_LIMITS
) -> GraphArchive:
    """Raw files → archive: ``x`` = colour and position, ``edge_attr`` [m, 1], ``y`` [1]."""
    if files[0].suffix == ".zip":
        return _official(name, files[0], limits)
    parts = [_read_sums(file, _SIDES[name], limits) for file in files]
    pixels = Superpixels.joined([part for part, _ in parts])
    labels = np.concatenate([labels for _, labels in parts])
    split = np.repeat(np.arange(len(parts), dtype=np.uint8), [len(p.sizes) for p, _ in parts])
    return superpixel_archive(pixels, labels, _CLASSES[name], split, reporter)


def superpixel_archive(
    pixels: Superpixels,
    labels: np.ndarray | None,
    classes: Sequence[str],
    split: np.ndarray | None,
    reporter: Reporter,
    names: Sequence[str] | None = None,
) -> GraphArchive:
    """Converts superpixels to an archive of graphs."""
    edge_index, weights, edge_offsets = neighbour_graphs(pixels, reporter)
    x = np.concatenate([pixels.colour, pixels.position], axis=1).astype(np.float32)
    single = np.dtype(np.float32)
    fields = {"x": Field("node", x, single), "edge_attr": Field("edge", weights[:, None], single)}
    target = None
    if labels is not None:
        fields["y"] = Field("graph", labels.astype(np.int64), np.dtype(np.int64))
        target = ClassTarget("graph", len(classes), tuple(classes))
    return GraphArchive(
        node_offsets=np.cumsum(np.concatenate([[0], pixels.sizes.astype(np.int64)])),
        edge_offsets=edge_offsets,
        edge_index=edge_index,
        fields=fields,
        split=split,
        names=names,
        target=target,
        meta={"featurizer": "superpixels"},
    )


def neighbour_graphs(
    pixels: Superpixels, reporter: Reporter
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the edges of all pictures, their weights, and the offsets of each picture's edges.

    Pictures with the same number of superpixels are processed together, on all cores.
    """
    sizes = pixels.sizes.astype(np.int64)
    degree = np.minimum(NEIGHBOURS, sizes - 1)
    edge_offsets = np.concatenate([[0], np.cumsum(sizes * degree)])
    node_offsets = np.concatenate([[0], np.cumsum(sizes)])
    targets = np.empty(edge_offsets[-1], dtype=np.uint16)
    weights = np.empty(edge_offsets[-1], dtype=np.float32)
    order = np.argsort(sizes, kind="stable")
    jobs = []
    for block in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        count = max(1, _BLOCK_PAIRS // int(sizes[block[0]]) ** 2) if len(block) else 1
        jobs += [block[start : start + count] for start in range(0, len(block), count)]

    def solve(block: np.ndarray) -> int:
        n = int(sizes[block[0]])
        position = pixels.position[node_offsets[block][:, None] + np.arange(n)]
        chosen, weight = nearest_nodes(position)
        place = edge_offsets[block][:, None] + np.arange(chosen[0].size)
        targets[place] = chosen.reshape(len(block), -1)
        weights[place] = weight.reshape(len(block), -1)
        return len(block)

    with (
        reporter.step("superpixel graphs", len(sizes)) as step,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        for done in pool.map(solve, jobs):
            step.advance(done)
    local = np.arange(node_offsets[-1]) - np.repeat(node_offsets[:-1], sizes)
    sources = np.repeat(local.astype(np.uint16), np.repeat(degree, sizes))
    return np.stack([sources, targets]), weights, edge_offsets


def nearest_nodes(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Returns the eight nodes with the highest A for each node, and the values of A.

    .. math::
        A_{ij} = \tfrac12 (e^{-(d_{ij} / \sigma_i)^2} + e^{-(d_{ij} / \sigma_j)^2})

    where σᵢ is the mean distance from i to its eight nearest other nodes. Ties go to the lowest
    index. The chosen nodes are sorted by index. ``position`` is ``[pictures, n, 2]``, and the
    results are ``[pictures, n, 8]``.
    """
    position = position.astype(np.float64)
    n = position.shape[1]
    k = min(NEIGHBOURS, n - 1)
    if k == 0:
        empty = np.empty((*position.shape[:2], 0))
        return empty.astype(np.int64), empty
    row, column = position[..., 0], position[..., 1]
    squared = (row[:, :, None] - row[:, None]) ** 2 + (column[:, :, None] - column[:, None]) ** 2
    diagonal = np.arange(n)
    squared[:, diagonal, diagonal] = np.inf
    nearest = np.partition(squared, k - 1, axis=-1)[..., :k]
    # Nodes at the same position have σ = 0; any positive σ keeps A = 1 for them.
    sigma = np.maximum(np.sqrt(nearest).mean(-1), 1e-8)
    affinity = np.exp(-squared / sigma[..., None] ** 2)
    affinity = (affinity + affinity.transpose(0, 2, 1)) / 2
    affinity[:, diagonal, diagonal] = -1.0
    # Take all values above the k-th highest, then fill up with values equal to it, in order.
    threshold = np.partition(affinity, n - k, axis=-1)[..., n - k, None]
    above = affinity > threshold
    equal = affinity == threshold
    missing = k - above.sum(-1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=-1) <= missing))
    index = np.nonzero(chosen)[2].reshape(*position.shape[:2], k)
    return index, np.take_along_axis(affinity, index, axis=-1)


def _read_sums(file: Path, side: int, limits: Limits) -> tuple[Superpixels, np.ndarray]:
    sums = read_npz(file, limits)
    count = sums["count"].astype(np.float64)[:, None]
    place = np.stack([sums["sum_row"], sums["sum_col"]], axis=1)
    pixels = Superpixels(
        sizes=sums["n_nodes"].astype(np.int64),
        colour=sums["sum_px"] / count / 255,
        position=place / count / side,
    )
    labels = sums["label"].astype(np.int64)
    if pixels.sizes.min(initial=1) < 1 or pixels.sizes.sum() != len(pixels.position):
        raise DataError(Problem(str(file), "n_nodes does not add up to the number of superpixels"))
    return pixels, labels


def _official(name: str, file: Path, limits: Limits) -> GraphArchive:
    single = np.dtype(np.float32)
    graphs, split = read_benchmark(name, file, limits)
    x = [np.concatenate([g["x"].reshape(len(g["x"]), -1), g["pos"]], axis=1) for g in graphs]
    weights = [g["edge_attr"].reshape(-1, 1) for g in graphs]
    fields = {
        "x": Field("node", np.concatenate(x).astype(single), single),
        "edge_attr": Field("edge", np.concatenate(weights).astype(single), single),
        "y": Field("graph", np.array([int(g["y"].item()) for g in graphs]), np.dtype(np.int64)),
    }
    target = ClassTarget("graph", len(_CLASSES[name]), _CLASSES[name])
    meta = {"featurizer": "superpixels"}
    return GraphArchive(
        **packed_structure(graphs), fields=fields, split=split, target=target, meta=meta
    )
