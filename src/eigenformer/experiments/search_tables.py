"""A search as a table."""

from __future__ import annotations

import math

from eigenformer.experiments.search import Search, Trial


def search_table(found: Search) -> str:
    """Returns all trials as Markdown: complete ones by their value, then all others."""
    ranked = found.ranked
    rest = [trial for trial in found.trials if trial not in ranked]
    names = list(dict.fromkeys(name for trial in found.trials for name in trial.settings))
    header = ["trial", f"val {found.metric}", "", *(name.partition(".")[2] for name in names)]
    rows = [header, ["---"] * len(header)]
    rows += [_row(trial, names) for trial in (*ranked, *rest)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(trial: Trial, names: list[str]) -> list[str]:
    value = "" if math.isnan(trial.value) else f"{trial.value:.4f}"
    settings = [shown(trial.settings.get(name, "")) for name in names]
    return [str(trial.number), value, "" if trial.state == "complete" else trial.state, *settings]


def shown(value: object) -> str:
    """Returns a setting in a few digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
