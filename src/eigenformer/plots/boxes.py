"""Boxes and arrows for diagrams."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from eigenformer.plots.style import BLACK, SMALL

GREY_TEXT = "#5A5A5A"
PLUS = 0.15
"""The height of a sum, in inches."""

_LINE = 0.135


def box_height(lines: Sequence[str]) -> float:
    """Returns the height of a box with these lines, in inches."""
    return 0.11 + _LINE * len(lines)


def stack(bottom: float, top: float, heights: Sequence[float]) -> list[float]:
    """Stacks items of these heights with equal gaps, and returns their middles."""
    gap = (top - bottom - sum(heights)) / (len(heights) - 1)
    middles = []
    for height in heights:
        middles.append(bottom + height / 2)
        bottom += height + gap
    return middles


class Diagram:
    """Draws boxes and arrows in axes whose unit is an inch, with the origin at the lower left.

    Args:
        ax: The axes.
        width: The width of the axes, in inches.
        height: The height of the axes, in inches.
    """

    def __init__(self, ax: Axes, width: float, height: float) -> None:
        ax.set(xlim=(0, width), ylim=(0, height))
        ax.axis("off")
        self.ax = ax

    def box(
        self, x: float, y: float, width: float, lines: Sequence[str], fill: str
    ) -> tuple[float, float]:
        """Draws a box around (x, y), named by its first line. Returns its lower and upper edge."""
        height = box_height(lines)
        self.ax.add_patch(
            FancyBboxPatch(
                (x - width / 2, y - height / 2),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=0.05",
                facecolor=fill,
                edgecolor=BLACK,
                linewidth=0.6,
            )
        )
        for number, line in enumerate(lines):
            self.text(x, y + _LINE * ((len(lines) - 1) / 2 - number), line, faint=number > 0)
        return y - height / 2, y + height / 2

    def text(
        self, x: float, y: float, text: str, faint: bool = False, align: str = "center"
    ) -> None:
        """Writes a line of text around (x, y)."""
        self.ax.text(
            *(x, y, text),
            ha=align,
            va="center",
            fontsize=SMALL,
            color=GREY_TEXT if faint else BLACK,
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draws a line through the points, with an arrowhead at the last one."""
        self.ax.add_patch(
            FancyArrowPatch(
                path=Path(list(points)),
                arrowstyle="-|>,head_length=2.6,head_width=1.3",
                joinstyle="miter",
                linewidth=0.7,
                color=BLACK,
            )
        )

    def plus(self, x: float, y: float) -> tuple[float, float]:
        """Draws a sum at (x, y). Returns its lower and upper end."""
        radius = PLUS / 2
        self.ax.add_patch(
            Circle((x, y), radius, facecolor="white", edgecolor=BLACK, linewidth=0.6, zorder=3)
        )
        self.ax.plot([x - 0.045, x + 0.045], [y, y], color=BLACK, linewidth=0.7, zorder=4)
        self.ax.plot([x, x], [y - 0.045, y + 0.045], color=BLACK, linewidth=0.7, zorder=4)
        return y - radius, y + radius
