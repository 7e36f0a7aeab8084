"""The patterns of one graph, and the learned heads that match each best."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from eigenformer.analysis.drawing import Drawing
from eigenformer.analysis.matches import PATTERNS, GraphMatches
from eigenformer.plots.graph import draw_structure, extent
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import AMOUNT, PAGE, SMALL, house_style

_TITLES = ("A", "A²", "A³", "A⁴", "A⁵", "distance")
_LEFT, _GAP = 1.5, 0.1  # inches
_ABOVE, _BETWEEN = 0.22, 0.4


@house_style()
def draw_attention(found: GraphMatches, drawing: Drawing, name: str, run: str) -> Picture:
    """Draws each pattern as a matrix, and below it the attention of the best matching head.

    Args:
        found: The patterns and heads of one graph.
        drawing: The graph.
        name: The name of the graph.
        run: The name of the model.
    """
    side = (PAGE - _LEFT - 0.05) / len(PATTERNS) - _GAP
    height = _ABOVE + side + _BETWEEN + side + 0.05
    picture = new_picture(PAGE, height, _caption(name, run))

    def axes(left: float, top: float, across: float, down: float) -> Axes:
        box = (left / PAGE, 1 - (top + down) / height, across / PAGE, down / height)
        return picture.body.add_axes(box)

    width = _LEFT - 0.25
    wide, high = extent(drawing)
    scale = 72 * min(width / wide, (height - 0.1) / high)
    draw_structure(axes(0.05, 0.05, width, height - 0.1), drawing, scale)
    for number, title in enumerate(_TITLES):
        left = _LEFT + number * (side + _GAP)
        pattern, attention = found.patterns[number], found.attention[number]
        near = number == len(_TITLES) - 1 and found.scores[number] > 0
        ax = axes(left, _ABOVE, side, side)
        _matrix(ax, -pattern if near else pattern)
        ax.set_title(f"−{title}" if near else title, fontsize=SMALL)
        ax = axes(left, _ABOVE + side + _BETWEEN, side, side)
        _matrix(ax, attention)
        layer, head = found.heads[number]
        about = _about(found.scores[number], found.lifts[number])
        ax.set_title(f"layer {layer}, head {head}\n{about}", fontsize=SMALL, linespacing=1.1)
    return picture


def _matrix(ax: Axes, values: np.ndarray) -> None:
    """Draws a matrix on its own colour scale, which ignores the diagonal."""
    others = values[~np.eye(len(values), dtype=bool)]
    low, high = (others.min(), others.max()) if len(others) else (0.0, 1.0)
    ax.imshow(values, cmap=AMOUNT, vmin=low, vmax=max(high, low + 1e-12), interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(True)


def _about(score: float, lift: float) -> str:
    if np.isnan(score):
        return "no score"  # the pattern tells no nodes apart
    return f"{score:.2f}, lift {lift:.2g}".replace("-", "−")


def _caption(name: str, run: str) -> str:
    return (
        f"Above: powers of the adjacency matrix of {name}, and its shortest-path distances. Below: "
        f"the attention of the head of {run} that matches each best (row i: where node i looks; "
        f"layers and heads counted from 0). The score is Somers' D between the order of a row of "
        f"attention and that of the pattern, averaged over rows: 1 for the same order, 0 for "
        f"chance; for distance, negative where a head looks far before near. Lift: how much more "
        f"of the pattern a head sees than one that looks everywhere alike. Each matrix has its own "
        f"scale, dark is much, without the diagonal, which takes no part in the score either."
    )
