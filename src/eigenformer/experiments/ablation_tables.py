"""Tables and CSV records of an ablation's results, next to the paper's figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eigenformer.experiments.ablation import Ablation
from eigenformer.experiments.paper_tables import format_result, mean_and_deviation, paper_table

_DIGITS = 4
# The paper's 0.81 is 30 of 37, which is our 0.8. All its fractions differ by more than this.
_NEAR = 0.03


@dataclass(frozen=True)
class Series:
    """A curve of the paper's figure: how much worse the metric is with fewer frequencies.

    Args:
        draw: How frequencies were sampled: ``eigenspaces``, ``literal``, or ``paper`` for the
            paper's own figures.
        everywhere: Whether the test used all frequencies, not the same fraction as training.
        fractions: The fractions of frequencies.
        changes: The change of the metric in percent, relative to all frequencies.
        deviations: The standard deviation of each change over the seeds, in percent; 0 for one
            seed.
    """

    draw: str
    everywhere: bool
    fractions: tuple[float, ...]
    changes: tuple[float, ...]
    deviations: tuple[float, ...]


def frequency_table(ablation: Ablation) -> str:
    """Returns the paper's Table 3 with our results, as Markdown."""
    found = {
        (o.model["frequency_fraction"], o.model.get("frequency_draw")): o for o in ablation.outcomes
    }
    header = [
        *("fraction", "paper"),
        *("eigenspaces, same draw", "eigenspaces, all frequencies", "kept"),
        *("literal, same draw", "literal, all frequencies", "kept"),
    ]
    rows = []
    for fraction in dict.fromkeys(fraction for fraction, _ in found):
        row = [f"{fraction:g}", _paper_cell(ablation, fraction)]
        for draw in ("eigenspaces", "literal"):
            outcome = found.get((fraction, draw)) or found[fraction, None]
            row += [mean_cell(outcome.sampled), mean_cell(outcome.test), f"{outcome.kept:.2f}"]
        rows.append(row)
    title = (
        f"Test {ablation.metric} of {ablation.name} with a fraction of the frequencies; "
        f"{ablation.schedule}"
    )
    return markdown(title, header, rows)


def scaler_table(ablation: Ablation) -> str:
    """Returns the results per degree scaler, as Markdown. The paper shows no number."""
    header = ["degree scaler", "parameters", f"test {ablation.metric}"]
    rows = [[o.variant.name, str(o.parameters), mean_cell(o.test)] for o in ablation.outcomes]
    title = f"Test {ablation.metric} of {ablation.name} by degree scaler; {ablation.schedule}"
    return markdown(title, header, rows)


def records(ablation: Ablation) -> str:
    """Returns every result as CSV: one line per variant and seed, with all digits."""
    settings = sorted({name for o in ablation.outcomes for name in o.model})
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    metric = ablation.metric
    writer.writerow(
        ["variant", *settings, "parameters", "kept", "seed", f"test_{metric}", f"sampled_{metric}"]
    )
    for outcome in ablation.outcomes:
        values = [outcome.model.get(name, "") for name in settings]
        common = [outcome.variant.name, *values, outcome.parameters, outcome.kept]
        for seed, test, sampled in zip(ablation.seeds, outcome.test, outcome.sampled, strict=True):
            writer.writerow([*common, seed, test, sampled])
    return stream.getvalue()


def frequency_curves(ablation: Ablation) -> list[Series]:
    """Returns the curves of the paper's figure: the change in percent against the fraction.

    Positive is worse for every metric. The list is empty if the fraction 1 is missing.
    """
    full = [o for o in ablation.outcomes if o.variant.name == "all"]
    if not full:
        return []
    sign = -100 if ablation.higher_is_better else 100
    base = mean_and_deviation(full[0].test)[0]

    def series(draw: str, everywhere: bool) -> Series:
        own = [o for o in ablation.outcomes if o.model.get("frequency_draw") == draw]
        chosen = [*full, *own]
        found = [mean_and_deviation(o.test if everywhere else o.sampled) for o in chosen]
        return Series(
            draw,
            everywhere,
            tuple(o.model["frequency_fraction"] for o in chosen),
            tuple(sign * (mean / base - 1) for mean, _ in found),
            tuple(100 * (deviation or 0) / base for _, deviation in found),
        )

    draws = ("eigenspaces", "literal")
    curves = [series(draw, everywhere) for draw in draws for everywhere in (False, True)]
    table = paper_table("frequencies")
    if ablation.name == table["preset"]:
        rows = table["rows"]
        fractions = tuple(row["fraction"] for row in rows)
        changes = tuple(100 * (row["result"] / rows[0]["result"] - 1) for row in rows)
        curves.append(Series("paper", False, fractions, changes, (0.0,) * len(rows)))
    return curves


def _paper_cell(ablation: Ablation, fraction: float) -> str:
    table = paper_table("frequencies")
    near = [row for row in table["rows"] if abs(row["fraction"] - fraction) < _NEAR]
    if ablation.name != table["preset"] or not near:
        return "-"
    return f"{near[0]['result']:.3f} ({near[0]['k']} of {table['nodes']})"


def mean_cell(values: Sequence[float]) -> str:
    """Formats the results of all seeds as one cell."""
    return format_result(*mean_and_deviation(values), _DIGITS)


def markdown(title: str, header: list[str], rows: list[list[Any]]) -> str:
    """Returns a table with its title, as Markdown."""
    lines = [" | ".join(cells) for cells in (header, ["---"] * len(header), *rows)]
    return f"**{title}**\n\n" + "".join(f"| {line} |\n" for line in lines)
