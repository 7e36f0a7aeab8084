"""The table and the CSV records of a comparison."""

from __future__ import annotations

import csv
import io

from eigenformer.experiments.comparison import Comparison, Entry
from eigenformer.experiments.paper_tables import format_result, mean_and_deviation
from eigenformer.options import NETWORK_NAMES

_DIGITS = 4
_PERCENT = ("accuracy", "weighted_accuracy")


def comparison_table(comparison: Comparison) -> str:
    """Returns one row per network as Markdown, the best test result first."""
    header = [
        *("network", "preset", "parameters", "epochs", "steps", "processor hours"),
        *(f"best val {comparison.metric}", f"test {comparison.metric}", "published"),
    ]
    lines = [" | ".join(cells) for cells in (header, ["---"] * len(header))]
    entries = sorted(
        comparison.entries,
        key=lambda entry: mean_and_deviation(entry.test)[0],
        reverse=comparison.higher_is_better,
    )
    lines += [" | ".join(_row(entry, comparison.metric)) for entry in entries]
    return f"**{title(comparison)}**\n\n" + "".join(f"| {line} |\n" for line in lines)


def title(comparison: Comparison) -> str:
    """Returns what was compared, in one line."""
    seeds = len(comparison.seeds)
    effort = (
        "the same number of epochs each"
        if comparison.hours is None and len({e.epochs for e in comparison.entries}) == 1
        else "the epochs of their presets"
        if comparison.hours is None
        else f"{comparison.hours:g} processor hours each"
    )
    part = "" if comparison.limit is None else f", {comparison.limit} graphs of each split"
    return (
        f"{comparison.dataset}: test {comparison.metric}, {effort}, "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}{part}"
    )


def records(comparison: Comparison) -> str:
    """Returns every run as CSV, with all digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    metric = comparison.metric
    names = ("network", "preset", "parameters", "epochs", "steps", "seed", "processor_hours")
    writer.writerow([*names, f"val_{metric}", f"test_{metric}"])
    for e in comparison.entries:
        runs = zip(comparison.seeds, e.hours, e.validation, e.test, strict=True)
        for run in runs:
            common = (e.name, e.preset, e.parameters, e.epochs, e.training_steps)
            writer.writerow([*common, *run])
    return stream.getvalue()


def _row(entry: Entry, metric: str) -> list[str]:
    hours, _ = mean_and_deviation(entry.hours)
    # A published accuracy is in percent.
    published = entry.published
    if published is not None and metric in _PERCENT:
        published /= 100
    return [
        NETWORK_NAMES.get(entry.name, entry.name),
        entry.preset,
        str(entry.parameters),
        str(entry.epochs),
        str(entry.training_steps),
        f"{hours:.3g}",
        format_result(*mean_and_deviation(entry.validation), _DIGITS),
        format_result(*mean_and_deviation(entry.test), _DIGITS),
        "-" if published is None else f"{published:.{_DIGITS}f}",
    ]
