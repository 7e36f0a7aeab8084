"""Ablations: repeats a training with one setting changed, to measure its effect."""

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
    """The result of a variant.

    Args:
        variant: The variant.
        parameters: The number of parameters of its model.
        test: The test metric per seed, with all frequencies.
        sampled: The test metric per seed with a sample of the frequencies, as in training: the mean
            over a few samples. Equal to ``test`` if training used all frequencies.
        kept: The fraction of frequencies in those samples.
    """

    variant: Variant
    parameters: int
    test: tuple[float, ...]
    sampled: tuple[float, ...]
    kept: float = 1.0

    @property
    def model(self) -> Mapping[str, Any]:
        """The model settings that the variant changes."""
        return self.variant.settings["model"]


@dataclass(frozen=True)
class Ablation:
    """The results of all variants, in order.

    Args:
        name: The name of the preset.
        metric: The name of the metric.
        seeds: The seeds of each variant.
        epochs: The number of epochs per training.
        limit: The number of graphs used per split; None for all.
        higher_is_better: Whether a higher value of the metric is better.
        outcomes: One result per variant.
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
        """The length of each training, for a caption."""
        full = load_preset(self.name).training.epochs
        part = "" if self.limit is None else f", {self.limit} graphs of each split"
        length = f"{_count(self.epochs, 'epoch')} (the paper's schedule: {full})"
        return f"{length}, {_count(len(self.seeds), 'seed')}{part}"


def frequency_variants(fractions: Sequence[float]) -> list[Variant]:
    """Returns two variants per fraction: whole eigenspaces, and the paper's literal sampling.

    The fraction 1 has one variant only.
    """
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
    """Returns the variants of the degree scaler: the paper's, one per layer, none."""
    kinds = ("shared", "per_layer", "none")
    return [Variant(kind, {"model": {"degree_scaler": kind}}) for kind in kinds]


def ablate(
    name: str,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    wanted: Mapping[str, Any],
    samples: int = 4,
    workspace: Workspace | None = None,
) -> Ablation:
    """Trains and tests every variant for every seed. Existing runs are reused or resumed.

    Args:
        name: A preset, a benchmark, or a path to the user's own data.
        variants: The variants to compare.
        seeds: The seeds, with one run per variant and seed.
        out: The folder of the run folders.
        wanted: Settings that differ from the preset's.
        samples: The number of frequency samples to test with. They are numbered from 0, so that
            every call uses the same samples.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
    """
    if samples < 1:
        raise ConfigError("samples: must be at least 1")
    runs: list[SweepRun] = []
    # The metric with all frequencies, the metric with a sample of them, the sample's fraction.
    tests: list[tuple[float, float, float]] = []
    for run in sweep(base_settings(name, wanted), variants, seeds, out, workspace):
        runs.append(run)
        tests.append((float(run.summary["test"]), *_with_samples(run, samples)))
    outcomes = []
    for start in range(0, len(runs), len(seeds)):
        test, sampled, kept = zip(*tests[start : start + len(seeds)], strict=True)
        parameters = runs[start].summary["parameters"]
        outcomes.append(Outcome(runs[start].variant, parameters, test, sampled, kept[0]))
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


def base_settings(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of all runs: those of a preset or of the user's own data, changed."""
    base: dict[str, Any] = {"data": {"dataset": name}}
    if name in presets():
        if not (dataset := load_preset(name).dataset):
            raise ConfigError(f"preset '{name}' is for your own data; give a path to it instead")
        base = {"preset": name, "data": {"dataset": dataset}}
    elif not Path(name).exists():
        near = unknown(f"preset '{name}'", name, presets())
        raise ConfigError(f"{near}; there is no such file or folder either")
    return merge(base, wanted)


def _with_samples(run: SweepRun, samples: int) -> tuple[float, float]:
    """Returns the test metric with sampled frequencies, and the fraction of them that was kept."""
    model = run.config.model
    if not isinstance(model, EigenformerConfig) or model.frequency_fraction == 1:
        return float(run.summary["test"]), 1.0
    trained, graphs = (
        TrainedModel.open(run.folder, run.config.device, limits=run.data.limits),
        run.data.dataset("test"),
    )
    metric, weights = trained.target.metric, []

    def tested(sample: int) -> float:
        def sampled(batch: Batch, places: np.ndarray) -> Batch:
            given = sample_for(model, batch, frequency_seeds(sample, places))
            if sample == 0:
                weights.append(given.frequency_weights)
            return given

        given = (trained.model, graphs, trained.target, trained.batch_size)
        return evaluate(*given, (metric,), sampled)[metric]

    results = [tested(sample) for sample in range(samples)]
    kept = sum(float(part.sum()) for part in weights) / sum(map(len, weights))
    return sum(results) / samples, kept
