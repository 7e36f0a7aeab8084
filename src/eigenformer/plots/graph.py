"""A graph in the plane: bonds as chemists draw them, nodes as coloured discs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from eigenformer.analysis.drawing import Drawing
from eigenformer.plots.style import BLACK, GREY, SMALL

_DISC = 0.27  # radius of a node, in bond lengths
_LEGIBLE = 8.0  # the shortest bond, in points, at which symbols are drawn
_GAP = 0.11  # between the lines of a double bond


def extent(drawing: Drawing) -> np.ndarray:
    """Returns the width and height of a drawing with its discs, in bond lengths."""
    return np.ptp(drawing.positions, axis=0) + 4 * _DISC


def draw_structure(ax: Axes, drawing: Drawing, scale: float) -> None:
    """Draws the graph itself, with the symbols of its atoms, except carbon, if there is room.

    Args:
        ax: The axes.
        drawing: The graph.
        scale: The bond length in points.
    """
    _frame(ax, drawing)
    _bonds(ax, drawing, scale, BLACK)
    if not drawing.is_molecule:
        _discs(ax, drawing, scale, color=GREY, linewidth=0)
        return
    if scale < _LEGIBLE:
        return
    size = max(SMALL, min(9.0, 0.42 * scale))
    for (x, y), label in zip(drawing.positions, drawing.letters, strict=True):
        if label:
            ax.text(
                *(x, y, label),
                ha="center",
                va="center_baseline",
                fontsize=size,
                bbox={"boxstyle": "circle,pad=0.12", "facecolor": "white", "linewidth": 0},
            )


def draw_values(
    ax: Axes, drawing: Drawing, values: np.ndarray, scale: float, cmap: str, limit: float
) -> None:
    """Draws the graph with each node coloured by its value, from −limit to limit.

    Args:
        ax: The axes.
        drawing: The graph.
        values: ``[n]``, the value of each node.
        scale: The bond length in points.
        cmap: The colour map.
        limit: The value at the ends of the colour map.
    """
    _frame(ax, drawing)
    _bonds(ax, drawing, scale, GREY)
    ends = {"c": values, "cmap": cmap, "vmin": -limit, "vmax": limit}
    _discs(ax, drawing, scale, edgecolor=BLACK, linewidth=min(0.5, 0.03 * scale), **ends)


def _frame(ax: Axes, drawing: Drawing) -> None:
    low, high = drawing.positions.min(0) - 2 * _DISC, drawing.positions.max(0) + 2 * _DISC
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.axis("off")


def _discs(ax: Axes, drawing: Drawing, scale: float, **look: Any) -> PathCollection:
    x, y = drawing.positions.T
    return ax.scatter(x, y, s=(2 * _DISC * scale) ** 2, zorder=2, **look)


def _bonds(ax: Axes, drawing: Drawing, scale: float, colour: str) -> None:
    ends, orders = drawing.positions[drawing.edges], drawing.orders
    along = ends[:, 1] - ends[:, 0]
    length = np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    aside = ((along / length)[:, ::-1] * (-1, 1) * _GAP)[:, None]
    left, right = ends + aside / 2, ends - aside / 2
    both = np.concatenate([left[orders == 2], right[orders == 2], right[orders == 1.5]])
    threefold = np.concatenate([(ends + aside)[orders == 3], (ends - aside)[orders == 3]])
    strokes = {
        "-": np.concatenate([ends[np.isin(orders, (1, 3))], both, threefold]),
        (0, (1.5, 1.2)): left[orders == 1.5],  # the second line of an aromatic bond
        (0, (0.7, 1.2)): ends[orders == 0],  # a bond of another kind
    }
    for style, lines in strokes.items():
        if len(lines):  # one path for all of them: a small file
            path = Path.make_compound_path(*(Path(line) for line in lines))
            width = min(0.9, 0.06 * scale)
            ax.add_patch(
                PathPatch(
                    path, facecolor="none", edgecolor=colour, linestyle=style, linewidth=width
                )
            )
