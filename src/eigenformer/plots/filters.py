"""What each head and filter learned, as small multiples: one row per layer, one column each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.gridspec import SubplotSpec
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from eigenformer.analysis.filters import Filters
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    PAGE,
    PALE,
    SMALL,
    VERMILION,
    house_style,
)

_COLOURS = {"phi2": BLUE, "phi1": VERMILION, "spectral": GREEN}
_MOST = 16  # filters side by side
# With non-breaking spaces.
_SCORE = "s\u00a0=\u00a0Σₖ\u00a0uₖ[i]\u00a0uₖ[j]\u00a0φ₂(λₖ)"
_Strokes = dict[str, list[np.ndarray]]
_LEFT, _TOP, _BOTTOM, _GAP = 0.55, 0.4, 0.32, 0.05  # inches


@house_style()
def draw_filters(
    filters: Filters,
    name: str,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Picture:
    """Draws φ₂ and φ₁ of the chosen layers and heads, and the spectral filters of these layers.

    One head of one layer is drawn large and alone.

    Args:
        filters: The filters of a model.
        name: The name of the model.
        layers: The layers to draw, counted from 0 (default: all).
        heads: The heads to draw, counted from 0 (default: all).
    """
    count = filters.phi2.shape[:2]
    layers = _chosen("layer", layers, count[0])
    heads = _chosen("head", heads, count[1])
    large = len(layers) * len(heads) == 1
    spectral = 0 if filters.spectral is None or large else filters.spectral.shape[1]
    caption = _caption(name, layers, heads, large, spectral > 0)
    if large:
        picture = new_picture(PAGE, 2.2, caption, layout="constrained")
        left, right = picture.body.subplots(1, 2)
        _large(filters, layers[0], heads[0], left, right)
        return picture
    side_by_side = len(heads) <= 4  # more heads would be too narrow
    tall = min(0.9, max(0.34, 4.4 / len(layers)))
    height = _TOP + tall * len(layers) + _BOTTOM
    parts = [range(first, min(first + _MOST, spectral)) for first in range(0, spectral, _MOST)]
    rows = (1 if side_by_side else 2) + len(parts)
    picture = new_picture(PAGE, rows * height, caption)
    edges = {"left": 0, "right": 1, "bottom": 0, "top": 1, "wspace": 0, "hspace": 0}
    grid = picture.body.add_gridspec(rows, 2, **edges)
    above = (grid[0, 0], grid[0, 1]) if side_by_side else (grid[0, :], grid[1, :])
    blocks: list[tuple[SubplotSpec, str, Sequence[int]]] = [
        (above[0], "phi2", heads),
        (above[1], "phi1", heads),
        *((grid[row - len(parts), :], "spectral", part) for row, part in enumerate(parts)),
    ]
    for place, which, columns in blocks:
        width = PAGE / 2 if side_by_side and which != "spectral" else PAGE
        ax = picture.body.add_subfigure(place).add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, width), ylim=(height, 0))
        ax.axis("off")
        cell = ((width - _LEFT - 0.08) / len(columns), tall)
        _block(ax, filters, which, layers, columns, cell)
    return picture


def _block(
    ax: Axes,
    filters: Filters,
    which: str,
    layers: Sequence[int],
    heads: Sequence[int],
    cell: tuple[float, float],
) -> None:
    """Draws all cells in one set of axes in inches: quick to draw, and a small file."""
    titles = {
        "phi2": "φ₂(λ): how much a frequency matters",
        "phi1": "φ₁(s): from the score of a pair to its logit",
        "spectral": "φ(λ) of the spectral filters: by how much a frequency is multiplied",
    }
    ax.text(0.06, 0.04, titles[which], va="top", fontsize=8, weight="bold")
    bottom = _TOP + cell[1] * len(layers)
    over_spectrum = which != "phi1"
    if which == "spectral":
        ax.text(_LEFT - 0.05, _TOP - 0.05, "filter", ha="right", va="bottom", fontsize=SMALL)
    strokes: _Strokes = {"shade": [], "frame": [], "zero": [], "curve": []}
    for column, head in enumerate(heads):
        left = _LEFT + column * cell[0]
        middle = left + (cell[0] - _GAP) / 2
        above = str(head) if which == "spectral" else f"head {head}"
        ax.text(middle, _TOP - 0.05, above, ha="center", va="bottom", fontsize=SMALL)
        for row, layer in enumerate(layers):
            corner = (left, _TOP + row * cell[1])
            for kind, lines in _cell(ax, filters, which, layer, head, corner, cell).items():
                strokes[kind] += lines
        if over_spectrum:
            places = zip((left, middle, left + cell[0] - _GAP), ("0", "1", "2"), strict=True)
            for (x, name), align in zip(places, ("left", "center", "right"), strict=True):
                ax.plot([x, x], [bottom - _GAP, bottom - _GAP + 0.03], color=GREY, linewidth=0.5)
                ax.text(x, bottom, name, ha=align, va="top", fontsize=SMALL)
    for row, layer in enumerate(layers):
        y = _TOP + (row + 0.5) * cell[1]
        ax.text(_LEFT - 0.05, y, f"layer {layer}", ha="right", va="center", fontsize=SMALL)
    middle = _LEFT + cell[0] * len(heads) / 2
    about = "eigenvalue λ" if over_spectrum else "score s, each head over its own range"
    below = bottom + (0.12 if over_spectrum else 0.02)
    ax.text(middle, below, about, ha="center", va="top", fontsize=SMALL)
    looks: dict[str, dict[str, Any]] = {
        "shade": {"facecolor": FAINT, "edgecolor": "none"},
        "frame": {"edgecolor": GREY, "linewidth": 0.3},
        "zero": {"edgecolor": PALE, "linewidth": 0.6},
        "curve": {"edgecolor": _COLOURS[which], "linewidth": 1.0},
    }
    for kind, lines in strokes.items():
        if lines:  # one path for all lines of a kind: a small file
            path = Path.make_compound_path(*(Path(line) for line in lines))
            ax.add_patch(PathPatch(path, **{"facecolor": "none", **looks[kind]}))


def _cell(
    ax: Axes,
    filters: Filters,
    which: str,
    layer: int,
    head: int,
    corner: tuple[float, float],
    cell: tuple[float, float],
) -> _Strokes:
    """Writes the number in a cell, and returns the lines of the cell."""
    left, top = corner
    width, height = cell[0] - _GAP, cell[1] - _GAP
    x, y = _curve(filters, which, layer, head)
    least, most = float(y.min()), float(y.max())
    across = (x - x[0]) / (x[-1] - x[0]) if x[-1] > x[0] else np.linspace(0, 1, len(x))
    up = (y - least) / (most - least) if most > least else np.full(len(y), 0.5)
    text = f"Δ {_short(most - least)}"
    low, high, at_top, at_right = _room(across, up, text, width, height)
    ax.text(
        left + (width - 0.03 if at_right else 0.03),
        top + (0.02 if at_top else height - 0.02),
        text,
        ha="right" if at_right else "left",
        va="top" if at_top else "bottom",
        fontsize=SMALL,
    )

    def place(right: np.ndarray, up: np.ndarray) -> np.ndarray:
        return np.stack([left + width * right, top + height * (high - up) / (high - low)], 1)

    ends = np.array([0.0, 1.0])
    zero = [place(ends, np.full(2, -least / (most - least)))] if least < 0 < most else []
    shade = []
    if which == "phi1":
        reach = filters.reach[layer, head]
        inside = np.clip(np.interp([-reach, reach], x, across), 0, 1)
        shade = [place(inside[[0, 1, 1, 0]], np.array([low, low, high, high]))]
    frame = place(np.array([0, 1, 1, 0, 0]), np.array([low, low, high, high, low]))
    return {"shade": shade, "frame": [frame], "zero": zero, "curve": [place(across, up)]}


def _room(
    across: np.ndarray, up: np.ndarray, text: str, width: float, height: float
) -> tuple[float, float, bool, bool]:
    """Returns the vertical range of a cell, and the corner where its text covers nothing.

    The curve lies between (0, 0) and (1, 1). If the text would cross it, the range grows.
    """
    share = min(1.0, len(text) * 0.6 * SMALL / 72 / width)
    tall = min(0.9, 1.15 * SMALL / 72 / height)
    corners = []
    for at_top in (True, False):
        for at_right in (True, False):
            near = across >= 1 - share if at_right else across <= share
            nearest = float((up[near] if at_top else 1 - up[near]).max(initial=0))
            # The range, relative to the curve's height, that keeps the text clear of the curve.
            corners.append((max(1.0, nearest / (1 - tall)), at_top, at_right))
    size, at_top, at_right = min(corners, key=lambda corner: corner[0])
    size += 0.12
    low, high = (-0.06, size - 0.06) if at_top else (1.06 - size, 1.06)
    return low, high, at_top, at_right


def _large(filters: Filters, layer: int, head: int, left: Axes, right: Axes) -> None:
    labels = (("eigenvalue λ", "φ₂(λ)"), ("score s", "φ₁(s) − φ₁(0)"))
    for ax, which, label in zip((left, right), ("phi2", "phi1"), labels, strict=True):
        x, y = _curve(filters, which, layer, head)
        ax.axhline(0, color=FAINT, linewidth=0.8)
        if which == "phi1":
            reach = filters.reach[layer, head]
            ax.axvspan(-reach, reach, color=FAINT, alpha=0.6, linewidth=0)
        ax.plot(x, y, color=_COLOURS[which])
        ax.set_xlim(x[0], x[-1])
        ax.set_xlabel(label[0])
        ax.set_ylabel(label[1])
        ax.xaxis.set_major_locator(MaxNLocator(6))


def _curve(filters: Filters, which: str, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    if which == "phi2":
        return filters.eigenvalues, filters.phi2[layer, head]
    if which == "spectral" and filters.spectral is not None:
        return filters.eigenvalues, filters.spectral[layer, head]
    scores, logits = filters.scores[layer, head], filters.phi1[layer, head]
    return scores, logits - np.interp(0, scores, logits)  # the softmax ignores a constant


def _short(value: float) -> str:
    """Formats a number in about three characters."""
    digits = 0 if abs(value) >= 9.95 else 1 if abs(value) >= 0.995 else 2
    return f"{value:.{digits}f}".replace("-", "−")


def _chosen(what: str, wanted: Sequence[int] | None, count: int) -> list[int]:
    for number in wanted or ():
        if not 0 <= number < count:
            raise ValueError(f"{what} {number}: the model has {count}, counted from 0")
    return list(range(count)) if wanted is None else list(wanted)


def _caption(
    name: str, layers: Sequence[int], heads: Sequence[int], large: bool, spectral: bool
) -> str:
    which = f" (layer {layers[0]}, head {heads[0]})" if large else ""
    figures = (
        ""
        if large
        else " Each cell has its own vertical scale, a grey line at 0, and says by how much its "
        "curve changes (Δ): of φ₁, the largest difference there can be between two logits."
    )
    beside = (
        " A spectral filter multiplies the share of each frequency in its channels by φ(λ)."
        if spectral
        else ""
    )
    return (
        f"What the heads of {name} learned{which}, layers and heads counted from 0. φ₂ weighs the "
        f"frequencies of the graph, φ₁ turns the score {_SCORE} of a pair of "
        f"nodes into its logit, drawn over all scores a head can meet, without the constant that "
        f"the softmax ignores. Shaded: the scores of two different nodes; those of a node with "
        f"itself may lie outside.{beside}{figures}"
    )
