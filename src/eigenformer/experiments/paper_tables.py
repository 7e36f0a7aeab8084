"""Our runs next to the paper's, and both of its result tables. Does not import PyTorch."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from eigenformer.config import (
    BenchmarkData,
    PaperRecord,
    Preset,
    RunConfig,
    load_preset,
    presets,
)
from eigenformer.options import NETWORK_NAMES
from eigenformer.training.overview import Run, find_runs
from eigenformer.training.run_folder import RunFolder

PAPER_TABLES = ("benchmarking-gnns", "long-range")
_PEERS = ("GPS", "GRIT")


def paper_table(name: str) -> dict[str, Any]:
    """Returns one of the paper's tables: title, columns, and rows of ``[mean, deviation]``."""
    text = (resources.files("eigenformer") / "paper" / f"{name}.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def result_tables(folder: str | Path) -> str:
    """Returns our runs next to the paper's, then both of its tables, as Markdown.

    A run is left out if it used only a part of the graphs (``--limit``, ``size``), had other
    settings than the preset, started from another model's weights, or stopped early. It is also
    left out if another run of the same preset has a longer schedule. A row without the paper's
    full schedule shows its number of epochs.
    """
    runs = [run for run, reason in _judged(folder) if reason is None]
    tables = [paper_table(name) for name in PAPER_TABLES]
    parts = [_markdown(table, runs) for table in tables]
    return "\n\n".join([_run_table(tables, runs), *parts]) + "\n"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns the mean and the sample standard deviation; None instead of it for one value."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), deviation


def format_result(mean: float, deviation: float | None, digits: int) -> str:
    """Formats a result as ``mean ± deviation``, or as the mean alone if the deviation is None."""
    shown = f"{mean:.{digits}f}"
    return shown if deviation is None else f"{shown} ± {deviation:.{digits}f}"


def left_out(folder: str | Path) -> list[tuple[Path, str]]:
    """Returns the runs that are left out of the tables, each with the reason."""
    return [(run.path, reason) for run, reason in _judged(folder) if reason is not None]


def _judged(folder: str | Path) -> list[tuple[Run, str | None]]:
    """Returns every run below a folder with the reason to leave it out; None if it counts."""
    judged = [(run, _why_not(run)) for run in find_runs(folder)]
    longest: dict[str, int] = defaultdict(int)
    for run, reason in judged:
        if reason is None:
            preset, epochs = run.summary["preset"], run.summary["epochs_planned"]
            longest[preset] = max(longest[preset], epochs)
    taken: set[tuple[str, int]] = set()
    for place, (run, reason) in enumerate(judged):
        preset, seed = run.summary.get("preset", ""), run.summary.get("seed", 0)
        if reason is not None:
            continue
        if run.summary["epochs_planned"] < longest[preset]:
            judged[place] = run, "a shorter schedule than another run of the preset"
        elif (preset, seed) in taken:
            judged[place] = run, f"the preset has another run with seed {seed}"
        else:
            taken.add((preset, seed))
    return judged


def _why_not(run: Run) -> str | None:
    """Returns the reason to leave a run out; None if there is none."""
    summary = run.summary
    if not run.finished:
        return "not finished"
    if summary.get("preset") not in presets():
        return "not a preset"
    preset = load_preset(summary["preset"])
    if summary.get("dataset") != preset.dataset:
        return "not the preset's data"
    if summary.get("limit") is not None or summary.get("size") is not None:
        return "only part of the graphs"
    if summary.get("differences"):
        return "not the paper's graphs"
    if not isinstance(summary.get("test"), int | float):
        return "no test result"
    measured = ("seconds_per_epoch", "peak_memory_mb", "threads", "processes")
    if not all(isinstance(summary.get(name), int | float) for name in measured):
        return "neither time nor memory was measured"
    if summary.get("epochs", summary["epochs_planned"]) < summary["epochs_planned"]:
        return "stopped before the end of its schedule"
    try:
        config = RunFolder(run.path).read_config()
    except ValueError:
        return "unreadable settings"
    if config.start is not None:
        return "started from another model"
    return None if _has_presets_settings(config, preset) else "settings differ from the preset's"


def has_model_of(config: RunConfig, preset: Preset) -> bool:
    """Whether a run has the preset's model and training. The length of the schedule may differ."""
    training = preset.training.with_epochs(config.training.epochs)
    training = training.replace(epoch_steps=config.training.epoch_steps)
    return (config.model, config.training) == (preset.model, training)


def _has_presets_settings(config: RunConfig, preset: Preset) -> bool:
    """Whether a run used the preset's settings. The length of the schedule may differ."""
    if not isinstance(config.data, BenchmarkData):
        return False
    data = BenchmarkData(preset.dataset, official=config.data.official)
    return has_model_of(config, preset) and (config.data, config.precision) == (data, "32")


def _run_table(tables: list[dict[str, Any]], runs: list[Run]) -> str:
    """Returns the result and cost of each run, next to the figures of the paper and two peers."""
    lines = [
        "**Our runs**",
        "",
        "| preset | seed | test | paper | GPS | GRIT | epochs | seconds an epoch | paper | "
        "peak memory | paper |",
        "|" + " --- |" * 11,
    ]
    for run in sorted(runs, key=lambda run: (run.summary["preset"], run.summary["seed"])):
        summary, preset = run.summary, load_preset(run.summary["preset"])
        table = next(t for t in tables if preset.dataset in t["columns"])
        column = table["columns"][preset.dataset]
        test = (100 if column["percent"] else 1) * summary["test"]
        paper = preset.paper
        cells = [
            preset.name,
            str(summary["seed"]),
            f"{column['metric']} {test:.{column['digits']}f}",
            "-" if paper is None else f"{paper.result:.{column['digits']}f}",
            *(_paper_cell(table["rows"][name].get(preset.dataset), column) for name in _PEERS),
            f"{summary['epochs_planned']} of {preset.original().training.epochs}",
            f"{summary['seconds_per_epoch']:.0f} ({_threads(summary)})",
            _seconds(paper),
            f"{summary['peak_memory_mb'] / 1000:.1f} GB",
            "-" if paper is None or paper.memory_gb is None else f"{paper.memory_gb:.1f} GB",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines if len(lines) > 4 else [*lines[:2], "None here."])


def _seconds(paper: PaperRecord | None) -> str:
    if paper is None or paper.epoch_seconds is None:
        return "-"
    return f"{paper.epoch_seconds:.0f} ({paper.accelerator})"


def _threads(summary: dict[str, Any]) -> str:
    count = summary["threads"] * summary["processes"]
    return "1 thread" if count == 1 else f"{count} threads"


def _markdown(table: dict[str, Any], runs: list[Run]) -> str:
    columns = table["columns"]
    arrows = {"lower": "↓", "higher": "↑"}
    header = [f"{c['label']}, {c['metric']} {arrows[c['better']]}" for c in columns.values()]
    lines = [
        f"**{table['title']}**",
        "",
        " | ".join(["| model", *header]) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for name, row in table["rows"].items():
        cells = [_paper_cell(row.get(key), column) for key, column in columns.items()]
        lines.append(" | ".join([f"| {name}", *cells]) + " |")
    for name, results in _own_rows(columns, runs).items():
        cells = [results.get(key, "-") for key in columns]
        lines.append(" | ".join([f"| **{name}**", *cells]) + " |")
    return "\n".join(lines)


def _paper_cell(value: list[float] | None, column: dict[str, Any]) -> str:
    if value is None:
        return "-"
    deviation = value[1] if len(value) > 1 else None
    return format_result(value[0], deviation, column["digits"])


def _own_rows(columns: dict[str, Any], runs: list[Run]) -> dict[str, dict[str, str]]:
    groups: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for run in runs:
        dataset = run.summary["dataset"]
        if dataset in columns:
            factor = 100 if columns[dataset]["percent"] else 1
            groups[_label(run), dataset][run.summary["seed"]] = factor * run.summary["test"]
    rows: dict[str, dict[str, str]] = {}
    for (label, dataset), by_seed in sorted(groups.items()):
        mean, deviation = mean_and_deviation(list(by_seed.values()))
        count = f" ({len(by_seed)} {'seed' if len(by_seed) == 1 else 'seeds'})"
        shown = format_result(mean, deviation, columns[dataset]["digits"])
        rows.setdefault(label, {})[dataset] = shown + count
    return rows


def _label(run: Run) -> str:
    preset, planned = load_preset(run.summary["preset"]), run.summary["epochs_planned"]
    feat = " (feat.)" if getattr(preset.model, "feature_attention", False) else ""
    variant = f" {preset.variant}" if preset.variant else ""
    full = preset.original().training.epochs
    name = NETWORK_NAMES.get(preset.model.kind, preset.model.kind)
    return f"{name}{feat}{variant}, ours" + ("" if planned == full else f", {planned} epochs")
