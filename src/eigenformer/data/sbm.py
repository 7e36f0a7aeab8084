"""PATTERN and CLUSTER: generated from the recipe of stochastic block models.

The published graphs were generated without a seed, so only the recipe can be reproduced. Here each
graph has its own stream of random numbers, keyed by (seed, dataset, split, number). The graphs are
the same everywhere, and a smaller set is the beginning of a larger one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.data.archive import GraphArchive
from eigenformer.data.benchmarking_gnns import benchmark_file, packed_structure, read_benchmark
from eigenformer.data.building import Builder
from eigenformer.data.errors import DataError
from eigenformer.data.fields import SPLITS, Field
from eigenformer.limits import DEFAULT_LIMITS, Limits
from eigenformer.reporting import Reporter
from eigenformer.targets import ClassTarget, LabelTarget, Target

PATTERN_SIZES = (10_000, 2_000, 2_000)
CLUSTER_SIZES = (10_000, 1_000, 1_000)
_SIZES_FROM, _SIZES_BELOW = 5, 35
_INSTANCES = 100
_PATTERN, _CLUSTER = 1, 2
_TARGETS = {
    "pattern": LabelTarget("node", names=("in the pattern",)),
    "cluster": ClassTarget("node", 6, tuple(f"community {c}" for c in range(6))),
}


@dataclass(frozen=True)
class _Graph:
    adjacency: np.ndarray  # upper triangle
    types: np.ndarray
    labels: np.ndarray


def pattern(
    sizes: tuple[int, int, int] = PATTERN_SIZES, seed: int = 0, reporter: Reporter | None = None
) -> GraphArchive:
    """Generates PATTERN: predict which nodes belong to a pattern planted among five communities.

    ``x`` is one of three random types, one-hot encoded. Each graph has one of 100 patterns, joined
    to the communities at random. The types and inner edges of a pattern are fixed.
    """
    stream = np.random.default_rng([seed, _PATTERN])
    instances = []
    for _ in range(_INSTANCES):
        size = int(stream.integers(_SIZES_FROM, _SIZES_BELOW))
        inner = np.triu(stream.random((size, size)) < 0.5, 1)
        instances.append((inner, stream.integers(0, 3, size)))

    def draw(stream: np.random.Generator, number: int) -> _Graph:
        inner, types = instances[number % _INSTANCES]
        community = _communities(stream, 5)
        n, extra = len(community), len(inner)
        adjacency = np.zeros((n + extra, n + extra), dtype=bool)
        adjacency[:n, :n] = _block_model(stream, community, 0.5, 0.35)
        adjacency[n:, n:] = inner
        adjacency[:n, n:] = stream.random((n, extra)) < 0.5
        features = np.concatenate([stream.integers(0, 3, n), types])
        labels = np.repeat([0, 1], [n, extra])
        order = stream.permutation(n + extra)
        return _Graph(_shuffled(adjacency, order), features[order], labels[order])

    return _archive(draw, (seed, _PATTERN), sizes, 3, _TARGETS["pattern"], reporter or Reporter())


def cluster(
    sizes: tuple[int, int, int] = CLUSTER_SIZES, seed: int = 0, reporter: Reporter | None = None
) -> GraphArchive:
    """Generates CLUSTER: predict to which of six communities a node belongs.

    ``x`` is one of seven types, one-hot encoded. One node per community carries the community's
    number; all other nodes have type 0.
    """

    def draw(stream: np.random.Generator, number: int) -> _Graph:
        community = _communities(stream, 6)
        adjacency = _block_model(stream, community, 0.55, 0.25)
        order = stream.permutation(len(community))
        labels = community[order]
        features = np.zeros(len(community), dtype=np.int64)
        for c in range(6):
            features[stream.choice(np.flatnonzero(labels == c))] = c + 1
        return _Graph(_shuffled(adjacency, order), features, labels)

    return _archive(draw, (seed, _CLUSTER), sizes, 7, _TARGETS["cluster"], reporter or Reporter())


def builder(name: str, size: int | None = None, seed: int = 0, official: bool = False) -> Builder:
    """Returns how a benchmark is built: generated, or read from the published graphs."""
    if official:
        if size is not None or seed:
            raise DataError(f"{name}: size and seed do not apply to the published graphs")
        layouts = ((benchmark_file(name),),)
        return Builder(layouts, lambda files, _, limits: build_official(name, files[0], limits))
    generate, full = {"pattern": (pattern, PATTERN_SIZES), "cluster": (cluster, CLUSTER_SIZES)}[
        name
    ]
    sizes = scaled_sizes(full, size)
    return Builder((), lambda _, reporter, limits: generate(sizes, seed, reporter))


def build_official(name: str, file: Path, limits: Limits = DEFAULT_LIMITS) -> GraphArchive:
    """Reads the published graphs, one realisation of the recipe, instead of generating graphs."""
    graphs, split = read_benchmark(name, file, limits)
    types = {"pattern": 3, "cluster": 7}[name]
    x = np.concatenate([graph["x"] for graph in graphs])
    if x.ndim == 1:
        x = np.eye(types)[x]
    labels = np.concatenate([graph["y"].reshape(-1) for graph in graphs])
    fields = {
        "x": Field("node", x.astype(np.uint8), np.dtype(np.float32)),
        "y": Field("node", labels.astype(np.int64), np.dtype(np.int64)),
    }
    return GraphArchive(
        **packed_structure(graphs), fields=fields, split=split, target=_TARGETS[name]
    )


def scaled_sizes(full: tuple[int, int, int], total: int | None) -> tuple[int, int, int]:
    """Returns the sizes of the splits for ``total`` graphs, in the benchmark's proportions."""
    if total is None:
        return full
    if total < 3:
        raise DataError(f"size: needs at least 3 graphs, one for each split; got {total}")
    rest = [max(1, round(total * part / sum(full))) for part in full[1:]]
    return total - sum(rest), rest[0], rest[1]


def _communities(stream: np.random.Generator, count: int) -> np.ndarray:
    return np.repeat(np.arange(count), stream.integers(_SIZES_FROM, _SIZES_BELOW, count))


def _block_model(
    stream: np.random.Generator, community: np.ndarray, within: float, between: float
) -> np.ndarray:
    """Returns the upper triangle of a random graph, denser within communities than between them."""
    same = community[:, None] == community
    draws = stream.random((len(community), len(community)))
    return np.triu(draws < np.where(same, within, between), 1)


def _shuffled(adjacency: np.ndarray, order: np.ndarray) -> np.ndarray:
    whole = adjacency | adjacency.T
    return whole[np.ix_(order, order)]


def _archive(
    draw: Callable[[np.random.Generator, int], _Graph],
    key: tuple[int, int],
    sizes: tuple[int, int, int],
    num_types: int,
    target: Target,
    reporter: Reporter,
) -> GraphArchive:
    graphs, edges = [], []
    with reporter.step("generate", sum(sizes)) as step:
        for split, count in enumerate(sizes):
            for number in range(count):
                graph = draw(np.random.default_rng([*key, split, number]), number)
                graphs.append((graph.types, graph.labels))
                edges.append(np.stack(graph.adjacency.nonzero()).astype(np.uint8))
                step.advance(1)
    types = np.concatenate([types for types, _ in graphs])
    labels = np.concatenate([labels for _, labels in graphs])
    return GraphArchive(
        node_offsets=np.cumsum([0, *(len(types) for types, _ in graphs)]),
        edge_offsets=np.cumsum([0, *(edge.shape[1] for edge in edges)]),
        edge_index=np.concatenate(edges, axis=1),
        fields={
            "x": Field("node", np.eye(num_types, dtype=np.uint8)[types], np.dtype(np.float32)),
            "y": Field("node", labels.astype(np.uint8), np.dtype(np.int64)),
        },
        split=np.repeat(np.arange(len(SPLITS), dtype=np.uint8), sizes),
        target=target,
        meta={"generator": {"seed": key[0], "sizes": list(sizes)}},
    )
