"""Both of the paper's result tables, its rows and ours together. Imports no PyTorch."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from eigenformer.config import load_preset, presets
from eigenformer.training.overview import Run, find_runs

PAPER_TABLES = ("benchmarking-gnns", "long-range")


def paper_table(name: str) -> dict[str, Any]:
    """One of the paper's tables as data: title, columns, and rows of ``[mean, deviation]``."""
    text = (resources.files("eigenformer") / "paper" / f"{name}.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def result_tables(folder: str | Path) -> str:
    """Both tables as Markdown, with the finished runs below a folder.

    Runs of a few graphs only (``--limit``, ``size``) do not count. A row that is not the
    preset's full schedule says how long it was.
    """
    runs = [run for run in find_runs(folder) if _counts(run)]
    return "\n\n".join(_markdown(paper_table(name), runs) for name in PAPER_TABLES) + "\n"


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the standard deviation of the sample where there are several."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return statistics.fmean(values), deviation


def format_result(mean: float, deviation: float | None, digits: int) -> str:
    """``mean ± deviation``."""
    shown = f"{mean:.{digits}f}"
    return shown if deviation is None else f"{shown} ± {deviation:.{digits}f}"


def _counts(run: Run) -> bool:
    if not run.finished or run.summary.get("preset") not in presets():
        return False
    preset = load_preset(run.summary["preset"])
    full = run.summary.get("limit") is None and run.summary.get("size") is None
    known = isinstance(run.summary.get("test"), int | float)
    return full and known and run.summary.get("dataset") == preset.dataset


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
    feat = " (feat.)" if run.summary["preset"].endswith("-feat") else ""
    planned = run.summary["epochs_planned"]
    full = load_preset(run.summary["preset"]).training.epochs
    return f"Eigenformer{feat}, ours" + ("" if planned == full else f", {planned} epochs")
