"""Ablations: the loss in quality with fewer frequencies, and the gain by each ingredient."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import PercentFormatter

from eigenformer.experiments.ablation_tables import Series
from eigenformer.experiments.paper_tables import mean_and_deviation
from eigenformer.experiments.parts import PartsAblation
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import BLACK, BLUE, COLUMN, PALE, VERMILION, house_style

_COLOURS = {"eigenspaces": BLUE, "literal": VERMILION, "paper": BLACK}
_NAMES = {"eigenspaces": "whole eigenspaces", "literal": "literal draw", "paper": "the paper"}
_DASHED = (0, (4, 1.5))


@house_style()
def draw_frequencies(curves: Sequence[Series], metric: str, about: str) -> Picture:
    """Draws the change of the test metric against the fraction of the frequencies.

    Args:
        curves: Our curves and the paper's.
        metric: The name of the metric.
        about: The model, and how long it was trained.
    """
    caption = (
        f"Change of the test {metric} when only a random fraction of the frequencies is used in "
        f"training; above 0 is worse. {about}. Solid: tested with the same share, dashed: tested "
        f"with all frequencies."
        + (" Bars: standard deviation over the seeds." * any(any(c.deviations) for c in curves))
    )
    picture = new_picture(COLUMN, 2.5, caption, layout="constrained")
    ax = picture.body.subplots()
    ax.axhline(0, color=PALE, linewidth=0.8)
    for curve in curves:
        ax.errorbar(
            curve.fractions,
            curve.changes,
            yerr=curve.deviations if any(curve.deviations) else None,
            color=_COLOURS[curve.draw],
            linestyle=_DASHED if curve.everywhere else "-",
            marker="o",
            markersize=3,
            capsize=2,
            label=None if curve.everywhere else _NAMES[curve.draw],
        )
    ax.invert_xaxis()
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    ax.set_xlabel("frequencies used in training")
    ax.set_ylabel(f"change of the test {metric}")
    ax.legend(loc="upper left")
    return picture


@house_style()
def draw_parts(ablation: PartsAblation, metric: str) -> Picture:
    """Draws how much each ingredient improves the test metric.

    Args:
        ablation: The results of all variants.
        metric: The name of the metric, as it is shown.
    """
    switched = [outcome for outcome in ablation.outcomes if outcome.variant.ingredient]
    names = list(dict.fromkeys(outcome.variant.ingredient for outcome in switched))
    caption = (
        f"Improvement of the test {metric} by each ingredient on {ablation.name}, relative to the "
        f"same model without it; right of 0 is better. {ablation.schedule}."
        + (" Bars: standard deviation over the seeds." * (len(ablation.seeds) > 1))
    )
    picture = new_picture(COLUMN, 1.0 + 0.24 * len(names), caption, layout="constrained")
    ax = picture.body.subplots()
    ax.axvline(0, color=PALE, linewidth=0.8)
    for on, colour, shift in ((True, BLUE, -0.13), (False, VERMILION, 0.13)):
        own = [outcome for outcome in switched if outcome.variant.on == on]
        if not own:
            continue
        found = [mean_and_deviation(ablation.gains(outcome)) for outcome in own]
        preset = own[0].variant.preset
        ax.errorbar(
            [mean for mean, _ in found],
            [names.index(outcome.variant.ingredient) + shift for outcome in own],
            xerr=[deviation or 0 for _, deviation in found] if len(ablation.seeds) > 1 else None,
            color=colour,
            linestyle="none",
            marker="o",
            markersize=3,
            capsize=2,
            label=f"switched on over {preset}" if on else f"switched off from {preset}",
        )
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.xaxis.set_major_formatter(PercentFormatter(decimals=0))
    ax.set_xlabel(f"improvement of the test {metric}")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1))  # above: points may be anywhere
    return picture
