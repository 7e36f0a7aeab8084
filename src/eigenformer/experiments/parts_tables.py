"""Tables and CSV records of the ablation of ingredients."""

from __future__ import annotations

import csv
import io

from eigenformer.experiments.ablation_tables import markdown, mean_cell
from eigenformer.experiments.paper_tables import mean_and_deviation
from eigenformer.experiments.parts import PartsAblation


def parts_table(ablation: PartsAblation) -> str:
    """Returns what each ingredient costs and brings, as Markdown."""
    header = ["model", "parameters", "step, ms", "epochs", f"test {ablation.metric}", "gain"]
    rows = []
    for outcome in ablation.outcomes:
        switched = bool(outcome.variant.ingredient)
        rows.append(
            [
                ("… " if switched else "") + outcome.variant.description,
                f"{outcome.parameters:,}",
                f"{1000 * outcome.cost.step:.0f}",
                str(outcome.epochs),
                mean_cell(outcome.test),
                _percent(ablation.gains(outcome)) if switched else "",
            ]
        )
    seeds = len(ablation.seeds)
    title = (
        f"Ingredients on {ablation.name}, one at a time; {ablation.schedule}; "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}. Gain: how much better the test "
        f"{ablation.metric} is with the ingredient than without"
    )
    return markdown(title, header, rows)


def parts_records(ablation: PartsAblation) -> str:
    """Returns every result as CSV: one line per variant and seed, with all digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = ("variant", "preset", "ingredient", "switched", "parameters", "step_seconds")
    writer.writerow([*names, "epoch_seconds", "epochs", "seed", f"test_{ablation.metric}"])
    for outcome in ablation.outcomes:
        variant, cost = outcome.variant, outcome.cost
        switched = ("on" if variant.on else "off") if variant.ingredient else ""
        common = (variant.name, variant.preset, variant.ingredient, switched)
        figures = (outcome.parameters, cost.step, cost.epoch, outcome.epochs)
        for seed, test in zip(ablation.seeds, outcome.test, strict=True):
            writer.writerow([*common, *figures, seed, test])
    return stream.getvalue()


def _percent(gains: tuple[float, ...]) -> str:
    mean, deviation = mean_and_deviation(gains)
    shown = f"{round(mean, 1) + 0.0:+.1f}"  # never -0.0
    return f"{shown} %" if deviation is None else f"{shown} ± {deviation:.1f} %"
