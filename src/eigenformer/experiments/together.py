"""Several runs that make one model: an ensemble of seeds, or the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigenformer.config import ConfigError, RunConfig, merge
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.sweep import SweepRun, Variant, sweep
from eigenformer.model_folder import EnsembleCard, write_ensemble
from eigenformer.pools import HERE, Pool
from eigenformer.targets import Calibration, Target
from eigenformer.trained_model import TrainedModel
from eigenformer.training.loading import TrainingData
from eigenformer.training.planning import plan
from eigenformer.training.predicting import calibrated


@dataclass(frozen=True)
class EnsembleResult:
    """A trained ensemble.

    Args:
        members: The test metrics of each member, by its folder.
        test: The test metrics of the ensemble.
        metric: The metric that selects the best epoch.
    """

    members: dict[str, dict[str, float]]
    test: dict[str, float]
    metric: str


@dataclass(frozen=True)
class OutOfFold:
    """The prediction for one graph by a model that was not trained on it.

    Args:
        graph: The index of the graph in its archive.
        name: The name of the graph.
        repeat: Which cross-validation, counted from 0.
        fold: Which fold of it.
        truth: The target.
        prediction: The prediction in units.
    """

    graph: int
    name: str
    repeat: int
    fold: int
    truth: np.ndarray
    prediction: np.ndarray


@dataclass(frozen=True)
class CrossValidation:
    """The results of a cross-validation.

    Args:
        target: What is predicted.
        folds: The number of folds.
        repeats: The number of cross-validations, each with other folds.
        metrics: The test metrics of each run, by its folder.
        rows: Every graph with a target, once per repeat, in the order of the data.
    """

    target: Target
    folds: int
    repeats: int
    metrics: dict[str, dict[str, float]]
    rows: tuple[OutOfFold, ...] = field(repr=False)


def train_ensemble(
    wanted: Mapping[str, Any],
    size: int,
    out: str | Path,
    workspace: Workspace | None = None,
    pool: Pool = HERE,
) -> EnsembleResult:
    """Trains models that differ in their seed, and makes one model of them.

    Existing runs are reused or resumed. The folder can then be opened like that of a single run.

    Args:
        wanted: The settings of a run, as :func:`plan` takes them. Its seed is the first one.
        size: The number of models.
        out: The folder of the ensemble, with the run folders in it.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        pool: Where to train: how many runs at the same time, here or on a cluster.
    """
    if size < 2:
        raise ConfigError(f"ensemble: needs at least 2 models, got {size}")
    wanted, workspace = dict(wanted), workspace or Workspace.resolve()
    first = wanted.pop("seed", 0)
    seeds = range(first, first + size)
    runs = list(sweep(wanted, [Variant("", {})], seeds, out, workspace, _seed_folder, pool))
    data, members = runs[0].data, tuple(run.folder.name for run in runs)
    write_ensemble(out, EnsembleCard(members))
    trained = TrainedModel.open(out, runs[0].config.device, limits=workspace.limits)
    if not trained.target.of_nodes:
        found = calibrated(trained.model, data.dataset("val"), trained.target, trained.batch_size)
        write_ensemble(out, EnsembleCard(members, found))
    return EnsembleResult(
        {run.folder.name: _metrics(run) for run in runs},
        trained.evaluate(data.dataset("test")),
        trained.target.metric,
    )


def cross_validate(
    wanted: Mapping[str, Any],
    folds: int,
    repeats: int,
    out: str | Path,
    workspace: Workspace | None = None,
    pool: Pool = HERE,
) -> CrossValidation:
    """Trains one model per fold and predicts the fold with it, so that each graph is predicted.

    Existing runs are reused or resumed. The folder can then be opened as an ensemble of all these
    models, calibrated with the out-of-fold predictions.

    Args:
        wanted: The settings of a run, as :func:`plan` takes them. Its split seed is the first one.
        folds: The number of folds.
        repeats: The number of cross-validations, each with other folds.
        out: The folder of the run folders.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        pool: Where to train: how many runs at the same time, here or on a cluster.
    """
    if repeats < 1:
        raise ConfigError(f"repeats: must be at least 1, got {repeats}")
    workspace = workspace or Workspace.resolve()
    base = merge(wanted, {})
    data = dict(base.get("data", {}))
    first = data.pop("split_seed", 0)
    base = {**base, "data": data}
    seed = base.pop("seed", 0)
    variants = [
        Variant(
            f"repeat{repeat}-fold{fold}",
            {"data": {"folds": folds, "fold": fold, "split_seed": first + repeat}},
        )
        for repeat in range(repeats)
        for fold in range(folds)
    ]
    target = plan(merge(base, variants[0].settings), workspace)[1].target
    if target.of_nodes:  # before any training
        raise ConfigError("folds: cross-validation needs targets of graphs, not of nodes")
    runs = list(sweep(base, variants, [seed], out, workspace, _variant_folder, pool))
    rows = [
        row
        for number, run in enumerate(runs)
        for row in _predicted(run, number // folds, number % folds, workspace)
    ]
    rows.sort(key=lambda row: (row.repeat, row.graph))
    scores = target.scores(
        np.stack([row.prediction for row in rows]), np.stack([row.truth for row in rows])
    )
    members = tuple(run.folder.name for run in runs)
    write_ensemble(out, EnsembleCard(members, Calibration.from_scores(scores.T)))
    metrics = {run.folder.name: _metrics(run) for run in runs}
    return CrossValidation(target, folds, repeats, metrics, tuple(rows))


def _predicted(run: SweepRun, repeat: int, fold: int, workspace: Workspace) -> list[OutOfFold]:
    trained = TrainedModel.open(run.folder, run.config.device, limits=workspace.limits)
    graphs, archive = run.data.splits["test"], run.data.archive
    predictions = trained.predict(run.data.dataset("test"), trained.batch_size).numpy()
    truths = trained.target.as_tensor(torch.from_numpy(run.data.targets("test").copy())).numpy()
    names = archive.names or [str(graph) for graph in range(len(archive))]
    return [
        OutOfFold(int(graph), names[int(graph)], repeat, fold, truth, prediction)
        for graph, truth, prediction in zip(graphs, truths, predictions, strict=True)
    ]


def _metrics(run: SweepRun) -> dict[str, float]:
    return dict(run.summary["test_metrics"])


def _seed_folder(config: RunConfig, data: TrainingData, variant: Variant) -> str:
    return f"seed{config.seed}"


def _variant_folder(config: RunConfig, data: TrainingData, variant: Variant) -> str:
    return variant.name
