"""Reproduces the paper's figures: a preset's full schedule for several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigenformer.config import ConfigError, load_preset, merge
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.paper_tables import format_result, has_model_of, mean_and_deviation
from eigenformer.experiments.sweep import Variant, sweep


def reproduce(
    preset: str,
    seeds: Sequence[int],
    out: str | Path,
    wanted: dict[str, Any],
    workspace: Workspace | None = None,
) -> str:
    """Trains a preset for several seeds and returns mean ± deviation next to the paper's figure.

    Finished runs are not trained again. Stopped runs are resumed.

    Args:
        preset: The name of the preset.
        seeds: The seeds, with one run folder per seed below ``out``.
        out: The folder of the run folders.
        wanted: Settings that differ from the preset's.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
    """
    workspace = workspace or Workspace.resolve()
    reporter = workspace.reporter
    chosen = load_preset(preset)
    if not chosen.dataset:
        raise ConfigError(
            f"preset '{preset}' is for your own data, and has no benchmark to reproduce; use  "
            f"eigenformer train DATA --preset {preset}"
        )
    base = merge({"data": {"dataset": chosen.dataset}}, {**wanted, "preset": preset})
    results = []
    for run in sweep(
        *(base, [Variant("", {})], seeds, out, workspace),
        name=lambda config, data, variant: f"{preset}-seed{config.seed}",
    ):
        test = float(run.summary["test"])
        results.append(test)
        reporter.say(f"seed {run.seed}: test {run.summary['metric']} {test:.4f}")
    config = run.config
    percent = 100 if run.summary["metric"] in ("accuracy", "weighted_accuracy") else 1
    mean, deviation = mean_and_deviation([percent * result for result in results])
    count = "1 seed" if len(results) == 1 else f"{len(results)} seeds"
    full = chosen.original().training.epochs
    shortened = config.training.epochs != full or config.data.limit is not None
    note = "; not the paper's full schedule" if shortened else ""
    note += "; not the paper's graphs" if run.summary.get("differences") else ""
    note += f"; a variant of the paper's {chosen.variant_of}" if chosen.variant_of else ""
    if config.model.kind != chosen.model.kind:
        note += f"; not the paper's network: {config.model.title}"
    elif not has_model_of(config, chosen):
        note += "; other settings than the preset's"
    shown = f"{format_result(mean, deviation, 4)} ({count}{note})"
    paper = chosen.paper
    if paper is None:
        return f"{preset}: test {run.summary['metric']} {shown}"
    return f"{preset}: test {paper.metric} {shown}; the paper: {paper.result} (1 run)"
