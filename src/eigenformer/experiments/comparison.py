"""Networks on the same data, with the same effort: equal processor time, or equal epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eigenformer.config import ConfigError, RunConfig, load_preset, merge, networks, presets
from eigenformer.data.benchmarks import BENCHMARKS
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.budget import fit_schedule
from eigenformer.experiments.cost import measure_costs
from eigenformer.experiments.sweep import SweepRun, Variant, sweep
from eigenformer.models import comparable
from eigenformer.nearest import unknown
from eigenformer.pools import HERE, Pool
from eigenformer.training.planning import plan
from eigenformer.training.run_folder import RunFolder

_OWN_DATA = "zinc"
"""The benchmark whose presets are used for the user's own data: all networks have one."""


@dataclass(frozen=True, eq=False)
class Entry:
    """The runs of one network, over all seeds.

    Args:
        name: The network or preset, as it was asked for.
        preset: The preset that the settings started from.
        parameters: The number of parameters.
        training_steps: The number of training steps of a run.
        epochs: The number of epochs of a run, with a validation after each.
        hours: The processor time of each run, in hours, without the test.
        validation: The best validation metric of each run.
        test: The test metric of each run.
        curves: For each run, the processor hours and the validation metric after every epoch.
        published: The published test metric of the preset on this data; None without one.
    """

    name: str
    preset: str
    parameters: int
    epochs: int
    training_steps: int
    hours: tuple[float, ...]
    validation: tuple[float, ...]
    test: tuple[float, ...]
    curves: tuple[tuple[np.ndarray, np.ndarray], ...] = field(repr=False)
    published: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The results of all networks, in the order in which they were asked for.

    Args:
        dataset: The name of the data.
        metric: The name of the metric.
        higher_is_better: Whether a higher value of the metric is better.
        seeds: The seeds of each network.
        hours: The processor time given to each run; None if all had the same number of epochs.
        limit: The number of graphs used per split; None for all.
        entries: One entry per network.
    """

    dataset: str
    metric: str
    higher_is_better: bool
    seeds: tuple[int, ...]
    hours: float | None
    limit: int | None
    entries: tuple[Entry, ...]


def compare(
    dataset: str,
    names: Sequence[str],
    seeds: Sequence[int],
    out: str | Path,
    wanted: Mapping[str, Any],
    hours: float | None = None,
    pool: Pool = HERE,
    workspace: Workspace | None = None,
) -> Comparison:
    """Trains and tests networks on the same data. Existing runs are reused or resumed.

    Each network has the settings of its preset for this data; for your own data, those for ZINC. If
    there is no such preset, it is as large as the Eigenformer.

    Args:
        dataset: A benchmark, or a path to your own data.
        names: Networks or presets.
        seeds: The seeds, with one run per network and seed.
        out: The folder of the run folders.
        wanted: Settings that all runs share, as :func:`plan` takes them.
        hours: Processor hours per run. The number of epochs is then chosen so that the schedule
            ends when they are used up. If None, all runs have the epochs in ``wanted``, or their
            preset's.
        pool: Where to train: how many runs at the same time, here or on a cluster.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
    """
    workspace = workspace or Workspace.resolve()
    base = merge({"data": {"dataset": dataset}, "threads": 1}, wanted)
    if hours is not None and "epochs" in base.get("training", {}):
        raise ConfigError("give hours or epochs, not both")
    variants = [_variant(name, dataset, base, workspace) for name in names]
    if hours is not None:
        variants = _with_schedules(variants, base, hours, Path(out), workspace)
    runs = list(sweep(base, variants, seeds, out, workspace, _folder, pool))
    groups = [runs[i : i + len(seeds)] for i in range(0, len(runs), len(seeds))]
    first = runs[0]
    return Comparison(
        first.data.name,
        first.data.target.metric,
        first.data.target.higher_is_better,
        tuple(seeds),
        hours,
        first.config.data.limit,
        tuple(_entry(group) for group in groups),
    )


def _folder(config: RunConfig, data: Any, variant: Variant) -> str:
    return f"{data.name}-{variant.name}-seed{config.seed}"


def _variant(name: str, dataset: str, base: Mapping[str, Any], workspace: Workspace) -> Variant:
    """Returns the settings of a network, or of a preset, on this data."""
    data = dataset if dataset in BENCHMARKS else _OWN_DATA
    if name in presets():
        return Variant(name, {"preset": name})
    if name not in networks():
        raise ConfigError(unknown(f"networks: '{name}'", name, (*networks(), *presets())))
    if name == "eigenformer":
        return Variant(name, {"preset": data})
    if f"{data}-{name}" in presets():
        return Variant(name, {"preset": f"{data}-{name}"})
    ours, _ = plan({**base, "preset": data}, workspace)
    sizes = comparable(name, ours.model).to_dict()
    model = {"kind": name, "layers": sizes["layers"], "hidden_dim": sizes["hidden_dim"]}
    return Variant(name, {"preset": data, "model": model})


def _with_schedules(
    variants: Sequence[Variant],
    base: Mapping[str, Any],
    hours: float,
    out: Path,
    workspace: Workspace,
) -> list[Variant]:
    """Returns the variants with the schedules that fit. Costs that were measured are kept."""
    costs, scheduled = measure_costs(base, variants, out, workspace), []
    for variant in variants:
        config, _ = plan(merge(base, variant.settings), workspace)
        training = fit_schedule(config.training, costs[variant.name], 3600 * hours)
        workspace.reporter.say(
            f"{variant.name}: {training.epochs} epochs"
            + (f" of {training.epoch_steps} steps" if training.epoch_steps else "")
        )
        names = ("epochs", "warmup_epochs", "epoch_steps")
        settings = {"training": {name: getattr(training, name) for name in names}}
        scheduled.append(Variant(variant.name, merge(variant.settings, settings)))
    return scheduled


def _entry(runs: Sequence[SweepRun]) -> Entry:
    config, summary = runs[0].config, runs[0].summary
    curves = []
    for run in runs:
        rows = RunFolder(run.folder).read_metrics()
        seconds = np.cumsum(run.summary["processor_seconds"])
        values = np.array([row[f"val_{summary['metric']}"] for row in rows])
        curves.append((seconds / 3600, values))
    preset = load_preset(config.preset)
    same = preset.dataset == config.data.dataset and preset.model.kind == config.model.kind
    batches = -(-len(runs[0].data.splits["train"]) // config.training.batch_size)
    return Entry(
        runs[0].variant.name,
        config.preset,
        summary["parameters"],
        config.training.epochs,
        config.training.epochs * (config.training.epoch_steps or batches),
        tuple(float(times[-1]) for times, _ in curves),
        tuple(float(run.summary["best_validation"]) for run in runs),
        tuple(float(run.summary["test"]) for run in runs),
        tuple(curves),
        preset.paper.result if same and preset.paper is not None else None,
    )
