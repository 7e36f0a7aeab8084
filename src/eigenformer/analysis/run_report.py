"""Collects everything about one run, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eigenformer.analysis.drawing import MOST_NODES
from eigenformer.analysis.errors import graph_errors
from eigenformer.analysis.filters import Filters, learned_filters
from eigenformer.analysis.graph_view import GraphView, view_graph
from eigenformer.analysis.trust import Trust, measure_trust
from eigenformer.config import RunConfig
from eigenformer.data.workspace import Workspace
from eigenformer.devices import resolve_device
from eigenformer.experiments.paper_tables import PAPER_TABLES, paper_table
from eigenformer.limits import DEFAULT_LIMITS
from eigenformer.model_folder import read_card
from eigenformer.targets import Target
from eigenformer.trained_model import TrainedModel
from eigenformer.training.run_folder import RunFolder

T = TypeVar("T")


@dataclass(frozen=True)
class Rank:
    """A row of the comparison.

    Args:
        name: The name of the model.
        mean: Its mean result.
        deviation: The standard deviation over several runs; None if it is not known.
        whose: ``ours``, ``paper`` for the paper's own model, or ``baseline``.
    """

    name: str
    mean: float
    deviation: float | None
    whose: str


@dataclass(frozen=True)
class Comparison:
    """Compares the run with the models of the paper's table, the best first.

    Args:
        label: The name of the benchmark.
        metric: The metric of the results.
        lower_is_better: Whether lower values of the metric are better.
        digits: The number of digits to show.
        ranks: The rows.
    """

    label: str
    metric: str
    lower_is_better: bool
    digits: int
    ranks: tuple[Rank, ...]


@dataclass(frozen=True, eq=False)
class Example:
    """A test graph with its prediction and truth.

    Args:
        index: The index of the graph in the test set.
        view: The graph and its drawing.
        prediction: The prediction, as in :class:`GraphErrors`.
        truth: The truth, as in :class:`GraphErrors`.
        error: The error, as in :class:`GraphErrors`.
    """

    index: int
    view: GraphView
    prediction: np.ndarray
    truth: np.ndarray
    error: float


@dataclass(frozen=True, eq=False)
class TestResults:
    """The results on the test set, graph by graph.

    Args:
        errors: ``[graphs]``.
        pairs: ``[graphs, 2]``, true and predicted numbers; None unless the target is one number.
        examples: The graphs with the largest errors, with drawings.
        trust: Whether the model is as sure as it should be.
    """

    errors: np.ndarray
    pairs: np.ndarray | None
    examples: tuple[Example, ...]
    trust: Trust


@dataclass(frozen=True, eq=False)
class RunReport:
    """The settings, the progress and the results of a run.

    Args:
        name: The name of the run folder.
        config: All settings.
        summary: The summary that the run wrote; empty if the run has not written one yet.
        metrics: One row per epoch.
        target: What is predicted; None without a model.
        comparison: The comparison with the paper's results; None if they are not comparable.
        filters: What the heads learned; None without weights.
        test: The results on the test set; None without weights or data.
        missing: The missing parts by name, and why each is missing.
    """

    name: str
    config: RunConfig
    summary: dict[str, Any]
    metrics: list[dict[str, float]]
    target: Target | None
    comparison: Comparison | None
    filters: Filters | None
    test: TestResults | None
    missing: dict[str, str] = field(default_factory=dict)


def report_run(
    path: str | Path,
    examples: int = 8,
    workspace: Workspace | None = None,
    device: str = "cpu",
) -> RunReport:
    """Collects the report of a run. ``missing`` lists the unavailable parts with reasons.

    Args:
        path: A run folder.
        examples: The number of test graphs to draw, those with the largest errors.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        device: The device to compute predictions on.
    """
    resolve_device(device)  # a wrong name is an error, not a missing part
    folder = RunFolder.open(path)
    config, summary = folder.read_config(), folder.read_summary()
    missing: dict[str, str] = {}
    if not summary:
        missing["summary"] = "the run has not completed an epoch"
    limits = DEFAULT_LIMITS if workspace is None else workspace.limits
    card = _try(missing, "model", lambda: read_card(path, limits))

    trained = _try(missing, "model", lambda: TrainedModel.open(path, device, limits=limits))

    def filters() -> Filters:
        return learned_filters(opened().model, samples=65)

    def test() -> TestResults:
        return _test(opened(), examples, workspace)

    def opened() -> TrainedModel:
        if trained is None:
            raise ValueError(missing["model"])
        return trained

    return RunReport(
        name=folder.path.resolve().name,
        config=config,
        summary=summary,
        metrics=folder.read_metrics(),
        target=None if card is None else card.target,
        comparison=_comparison(config, summary),
        filters=_try(missing, "filters", filters),
        test=_try(missing, "test", test),
        missing=missing,
    )


def _try(missing: dict[str, str], name: str, make: Callable[[], T]) -> T | None:
    try:
        return make()
    except (ValueError, OSError, ImportError) as error:
        missing[name] = str(error)
        return None


def _comparison(config: RunConfig, summary: dict[str, Any]) -> Comparison | None:
    tables = [paper_table(name) for name in PAPER_TABLES]
    table = next((t for t in tables if config.data.dataset in t["columns"]), None)
    test = summary.get("test")
    if table is None or not isinstance(test, int | float):
        return None
    column = table["columns"][config.data.dataset]
    ranks = [
        Rank(
            f"this run: {config.model.title}",
            (100 if column["percent"] else 1) * test,
            None,
            "ours",
        )
    ]
    for name, row in table["rows"].items():
        if config.data.dataset in row:
            mean, *rest = row[config.data.dataset]
            whose = "paper" if name.startswith("Eigenformer") else "baseline"
            ranks.append(Rank(name, mean, rest[0] if rest else None, whose))
    lower = column["better"] == "lower"
    ranks.sort(key=lambda rank: rank.mean if lower else -rank.mean)
    return Comparison(column["label"], column["metric"], lower, column["digits"], tuple(ranks))


def _test(trained: TrainedModel, examples: int, workspace: Workspace | None) -> TestResults:
    graphs = trained.graphs(workspace, "test")
    found = graph_errors(trained.model, graphs, trained.target, trained.batch_size)
    archive, places = graphs.archive, graphs.indices
    small = archive.num_nodes[places] <= MOST_NODES
    order = [graph for graph in found.worst(len(places)) if small[graph]]
    drawn = tuple(
        Example(
            graph,
            view_graph(archive, int(places[graph]), trained.input_format.num_frequencies),
            found.predictions[graph],
            found.targets[graph],
            float(found.errors[graph]),
        )
        for graph in order[:examples]
    )
    pairs = trained.target.pairs(found.predictions, found.targets)
    trust = measure_trust(trained.target, trained.calibration, found.predictions, found.targets)
    return TestResults(found.errors, pairs, drawn, trust)
