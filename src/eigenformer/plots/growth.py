"""The growth of time and memory for each way to compute attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import GREY, PAGE, SKY, VERMILION, house_style

_WHAT = {
    "nodes": "nodes of a graph",
    "phi_width": "width of φ",
    "heads": "heads",
}
_MODELS = {"literal": GREY, "torch": SKY, "native": VERMILION}
_FIGURES = {"cpu": "processor seconds", "memory": "memory, MB"}


@house_style()
def draw_growth(records: Sequence[Mapping[str, Any]]) -> Picture:
    """Draws time and memory over nodes, φ's width and heads.

    Args:
        records: The ``growth`` records of ``eigenformer bench``: ``name`` is the quantity that
            grows to ``value``; ``cpu`` and ``memory`` are missing if a measurement failed.
    """
    caption = (
        "Processor time and memory of one attention layer over the nodes of one graph (left), and "
        "of a training step on 128 ZINC-sized graphs over the width of φ and over the heads, one "
        "thread. Memory is the growth above the level before the step."
    )
    picture = new_picture(PAGE, 3.4, caption, layout="constrained")
    axes = picture.body.subplots(len(_FIGURES), len(_WHAT), sharex="col")
    for row, (figure, label) in zip(axes, _FIGURES.items(), strict=True):
        for ax, name in zip(row, _WHAT, strict=True):
            _curves(ax, [r for r in records if r["name"] == name and figure in r], figure)
        row[0].set_ylabel(label)
    for ax, (name, label) in zip(axes[-1], _WHAT.items(), strict=True):
        ax.set_xlabel(label)
        ax.set_xscale("log", base=2)
        ticks = sorted({r["value"] for r in records if r["name"] == name})
        ax.set_xticks(ticks[:: 2 if len(ticks) > 6 else 1])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes[0][0].legend(loc="upper left")
    return picture


def _curves(ax: Axes, records: Sequence[Mapping[str, Any]], figure: str) -> None:
    for model, colour in _MODELS.items():
        points = [(r["value"], r[figure]) for r in records if r["model"] == model]
        if points:
            ax.plot(*zip(*points, strict=True), marker="o", ms=2.5, color=colour, label=model)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
