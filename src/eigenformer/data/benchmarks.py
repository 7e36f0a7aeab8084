"""The seven benchmarks: what the paper reports about each, and how each is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eigenformer.config.data import with_kind
from eigenformer.data.building import Builder
from eigenformer.data.errors import DataError
from eigenformer.data.statistics import Statistics
from eigenformer.data.zinc import KNOWN_ATOMS
from eigenformer.lazy import find
from eigenformer.nearest import unknown


@dataclass(frozen=True)
class Expected:
    """The expected mean numbers of nodes and edges, with their tolerances."""

    nodes: float
    edges: float
    node_tolerance: float
    edge_tolerance: float


@dataclass(frozen=True)
class Benchmark:
    """One row of the paper's dataset table.

    Args:
        name: The name of the benchmark in this package.
        graphs: Number of graphs.
        mean_nodes: Mean number of nodes per graph, as printed.
        mean_edges: Mean number of edges per graph, as printed.
        count_once: Whether the table counts an undirected edge once.
        directed: Whether the edges are directed.
        task: What is predicted.
        builder: The function that returns its :class:`Builder`, as ``module:function``. It takes
            the name of the benchmark; for a generated benchmark, also ``size``, ``seed`` and
            ``official``.
        generated: Whether the graphs are generated from a recipe instead of read from files.
        recipe: The means of the recipe, if they are expected instead of the table's.
        unknown_type: The node type that stands for all types missing from the benchmark.
        metric: The metric, if it is not the usual one for the kind of target.
    """

    name: str
    graphs: int
    mean_nodes: float
    mean_edges: float
    count_once: bool
    directed: bool
    task: str
    builder: str
    generated: bool = False
    recipe: Expected | None = None
    unknown_type: int | None = None
    metric: str | None = None

    def edges(self, statistics: Statistics) -> float:
        """Returns the mean number of edges, counted as in the table."""
        return statistics.mean_edges / (2 if self.count_once else 1)

    def expected(self) -> Expected:
        """Returns the means of the recipe, or those of the table up to rounding.

        For CIFAR10, the table's number of edges is 0.02 % above eight per node, because the
        original code occasionally keeps one more.
        """
        if self.recipe is not None:
            return self.recipe
        return Expected(self.mean_nodes, self.mean_edges, 0.05, 0.05 + 2e-4 * self.mean_edges)

    def differences(self, statistics: Statistics) -> list[str]:
        """Returns the differences from the paper; an empty list if there are none."""
        expected, found = self.expected(), []
        if statistics.graphs != self.graphs:
            found.append(f"{statistics.graphs} graphs, the paper has {self.graphs}")
        if abs(statistics.mean_nodes - expected.nodes) > expected.node_tolerance:
            found.append(f"{statistics.mean_nodes:.2f} mean nodes, expected {expected.nodes}")
        if abs(self.edges(statistics) - expected.edges) > expected.edge_tolerance:
            found.append(f"{self.edges(statistics):.2f} mean edges, expected {expected.edges}")
        if statistics.directed != self.directed:
            found.append(f"directed: {statistics.directed}, the paper says {self.directed}")
        return found


# PATTERN's 100 pattern sizes are chosen at random once, and the published means come from one such
# choice. The recipe gives 117.0 and 2935 with standard errors 0.88 and 52; the tolerance is three
# standard errors. CLUSTER's means vary little; the tolerance is 2 % of the paper's means.
_ZINC, _PIXELS = "eigenformer.data.zinc:builder", "eigenformer.data.superpixels:builder"
_SBM, _PEPTIDES = "eigenformer.data.sbm:builder", "eigenformer.data.peptides:builder"
BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            *("zinc", 12_000, 23.2, 24.9, True, False, "regression", _ZINC),
            unknown_type=KNOWN_ATOMS,
        ),
        Benchmark("mnist", 70_000, 70.6, 564.5, False, True, "10-class classification", _PIXELS),
        Benchmark("cifar10", 60_000, 117.6, 941.2, False, True, "10-class classification", _PIXELS),
        Benchmark(
            *("pattern", 14_000, 118.9, 3039.3, True, False, "binary node classification", _SBM),
            generated=True,
            recipe=Expected(117.0, 2935.0, 3 * 0.88, 3 * 52),
        ),
        Benchmark(
            *("cluster", 12_000, 117.2, 2150.9, True, False, "6-class node classification", _SBM),
            generated=True,
            recipe=Expected(117.2, 2150.9, 0.02 * 117.2, 0.02 * 2150.9),
        ),
        Benchmark(
            *("peptides-func", 15_535, 150.9, 307.3, False, False, "10-label classification"),
            builder=_PEPTIDES,
            metric="average_precision",
        ),
        Benchmark(
            *("peptides-struct", 15_535, 150.9, 307.3, False, False, "11-task regression"),
            builder=_PEPTIDES,
        ),
    )
}


def benchmark(name: str) -> Benchmark:
    """Returns the benchmark with this name."""
    if name not in BENCHMARKS:
        raise DataError(unknown(f"benchmark '{name}'", name, BENCHMARKS))
    return BENCHMARKS[name]


def data_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain data settings; if ``kind`` is missing, the kind of the dataset is added."""
    return with_kind(values, BENCHMARKS)


def builder(
    name: str,
    size: int | None = None,
    seed: int = 0,
    official: bool = False,
) -> Builder:
    """Returns the builder of a benchmark.

    Args:
        name: The name of the benchmark.
        size: Number of graphs of a generated benchmark (default: that of the benchmark).
        seed: The seed of a generated benchmark.
        official: Whether to use the published graphs instead of generating them.
    """
    if seed < 0:
        raise DataError(f"seed: must not be negative, got {seed}")
    row = benchmark(name)
    make: Callable[..., Builder] = find(row.builder)
    if row.generated:
        return make(name, size, seed, official)
    if size is not None or seed or official:
        raise DataError(
            f"{name}: size, generator_seed and official apply to pattern and cluster only"
        )
    return make(name)
