"""The same training again with one thing changed: what that thing is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch_geometric.data import Batch

from eigenformer.config import ConfigError, EigenformerConfig, load_preset, merge, presets
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.sweep import SweepRun, Variant, sweep
from eigenformer.frequencies import sample_for
from eigenformer.nearest import unknown
from eigenformer.trained_model import TrainedModel
from eigenformer.training.predicting import evaluate, frequency_seeds


@dataclass(frozen=True)
class Outcome:
    """What became of a variant.

    Args:
        variant: Which one.
        parameters: Of its model.
        test: The test metric of each seed, with all frequencies.
        drawn: The same with a part of the frequencies, as in training, the mean over a few draws;
            equal to ``test`` where training used all of them.
        kept: The share of frequencies that those draws kept.
    """

    variant: Variant
    parameters: int
    test: tuple[float, ...]
    drawn: tuple[float, ...]
    kept: float = 1.0

    @property
    def model(self) -> Mapping[str, Any]:
        """The settings of the model that the variant changes."""
        return self.variant.settings["model"]


@dataclass(frozen=True)
class Ablation:
    """All variants, in order.

    Args:
        name: The preset.
        metric: What the figures are.
        seeds: Of each variant.
        epochs: Of each training.
        limit: Graphs of each split; None for all.
        higher_is_better: Of the metric.
        outcomes: One for each variant.
    """

    name: str
    metric: str
    seeds: tuple[int, ...]
    epochs: int
    limit: int | None
    higher_is_better: bool
    outcomes: tuple[Outcome, ...] = field(repr=False)

    @property
    def schedule(self) -> str:
        """How long each training was, for a caption."""
        full = load_preset(self.name).training.epochs
        part = "" if self.limit is None else f", {self.limit} graphs of each split"
        length = f"{_count(self.epochs, 'epoch')} (the paper's schedule: {full})"
        return f"{length}, {_count(len(self.seeds), 'seed')}{part}"


def frequency_variants(fractions: Sequence[float]) -> list[Variant]:
    """Each fraction twice, whole eigenspaces and the paper's literal draw; all of them once."""
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise ConfigError(f"fractions: must be in (0, 1], got {fraction}")
    variants = []
    for fraction in sorted(set(fractions), reverse=True):
        if fraction == 1:
            variants.append(Variant("all", {"model": {"frequency_fraction": 1.0}}))
            continue
        for draw in ("eigenspaces", "literal"):
            settings = {"frequency_fraction": float(fraction), "frequency_draw": draw}
            variants.append(Variant(f"{fraction:g}-{draw}", {"model": settings}))
    return variants


def scaler_variants() -> list[Variant]:
    """The degree scaler: the paper's, one in each layer, none."""
    kinds = ("shared", "per_layer", "none")
    return [Variant(kind, {"model": {"degree_scaler": kind}}) for kind in kinds]


def ablate(
    name: str,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    wanted: Mapping[str, Any],
    draws: int = 4,
    workspace: Workspace | None = None,
) -> Ablation:
    """Trains every variant for every seed, taking up what is there, and tests it.

    Args:
        name: A preset, a benchmark, or a path to one's own data.
        variants: What to compare.
        seeds: One run each.
        out: Where the runs are, each in a folder of its own.
        wanted: Other settings than the preset's.
        draws: How often to draw for the test with a part of the frequencies; the draws are
            numbered from 0, so that the same ones are made every time.
        workspace: Where raw files and prepared graphs are (default: as the environment says).
    """
    if draws < 1:
        raise ConfigError("draws: at least one")
    runs: list[SweepRun] = []
    tests: list[tuple[float, float, float]] = []  # with all frequencies, with a part, what part
    for run in sweep(_base(name, wanted), variants, seeds, out, workspace):
        runs.append(run)
        tests.append((float(run.summary["test"]), *_with_draws(run, draws)))
    outcomes = []
    for start in range(0, len(runs), len(seeds)):
        test, drawn, kept = zip(*tests[start : start + len(seeds)], strict=True)
        parameters = runs[start].summary["parameters"]
        outcomes.append(Outcome(runs[start].variant, parameters, test, drawn, kept[0]))
    config, target = runs[-1].config, runs[-1].data.target
    return Ablation(
        config.preset,
        target.metric,
        tuple(seeds),
        config.training.epochs,
        config.data.limit,
        target.higher_is_better,
        tuple(outcomes),
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _base(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    base: dict[str, Any] = {"data": {"dataset": name}}
    if name in presets():
        base = {"preset": name, "data": {"dataset": load_preset(name).dataset}}
    elif not Path(name).exists():
        near = unknown(f"preset '{name}'", name, presets())
        raise ConfigError(f"{near}; nor is there such a file or folder")
    return merge(base, wanted)


def _with_draws(run: SweepRun, draws: int) -> tuple[float, float]:
    """The test metric with a part of the frequencies, and the share of them that was kept."""
    model = run.config.model
    if not isinstance(model, EigenformerConfig) or model.frequency_fraction == 1:
        return float(run.summary["test"]), 1.0
    trained, graphs = TrainedModel.open(run.folder), run.data.dataset("test")
    metric, weights = trained.target.metric, []

    def tested(draw: int) -> float:
        def sampled(batch: Batch, places: np.ndarray) -> Batch:
            given = sample_for(model, batch, frequency_seeds(draw, places))
            if draw == 0:
                weights.append(given.frequency_weights)
            return given

        given = (trained.model, graphs, trained.target, trained.batch_size)
        return evaluate(*given, (metric,), sampled)[metric]

    results = [tested(draw) for draw in range(draws)]
    kept = sum(float(part.sum()) for part in weights) / sum(map(len, weights))
    return sum(results) / draws, kept
