"""The eigenvectors of one graph as node colours, in order of frequency."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from eigenformer.analysis.substructures import Substructures
from eigenformer.plots.graph import draw_structure, draw_values, extent
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import PAGE, SIGNED, SMALL, house_style

_TITLE = 0.2  # inches above each panel


@house_style()
def draw_substructures(found: Substructures) -> Picture:
    """Draws the graph itself in a large panel, then each eigenvector in a small one."""
    count = len(found.places)
    wide, high = extent(found.drawing)
    columns = 6 if len(found.drawing) < 60 or high > wide / 2 else 4
    width = PAGE / columns
    height = width * min(1.0, max(0.3, high / wide))
    scale = 72 * min(width / wide, height / high)
    # The structure takes 2 × 2 cells, next to the first eigenvectors.
    beside = 2 * (columns - 2)
    places = [(2 + i % (columns - 2), i // (columns - 2)) for i in range(beside)]
    places += [(i % columns, 2 + i // columns) for i in range(max(0, count - beside))]
    rows = 1 + max(line for _, line in places)
    total = rows * (height + _TITLE)
    picture = new_picture(PAGE, total, _caption(found))

    def axes(left: float, top: float, across: float, down: float) -> Axes:
        box = (left / PAGE, 1 - (top + down) / total, across / PAGE, down / total)
        return picture.body.add_axes(box)

    draw_structure(axes(0, 0, 2 * width, 2 * height), found.drawing, 2 * scale)
    limit = float(np.abs(found.eigenvectors).max())
    for index, (column, line) in zip(range(count), places, strict=False):
        ax = axes(column * width, line * (height + _TITLE) + _TITLE, width, height)
        draw_values(ax, found.drawing, found.eigenvectors[:, index], scale, SIGNED, limit)
        ax.set_title(_title(found, index), fontsize=SMALL, pad=1)
    _colour_bar(picture, axes(width - 0.6, 2 * height + 0.06, 1.2, 0.07), limit)
    return picture


def _colour_bar(picture: Picture, ax: Axes, limit: float) -> None:
    colours = ScalarMappable(Normalize(-limit, limit), SIGNED)
    bar = picture.figure.colorbar(colours, cax=ax, orientation="horizontal")
    bar.set_ticks([-limit, 0, limit], labels=[f"−{limit:.2f}", "uₖ[i] = 0", f"{limit:.2f}"])
    bar.outline.set_linewidth(0.4)
    ax.tick_params(length=2, pad=1, labelsize=SMALL)


def _title(found: Substructures, index: int) -> str:
    times, value = int(found.multiplicities[index]), float(found.eigenvalues[index])
    repeated = f" (×{times})" if times > 1 else ""
    shown = f"{value:.1g}" if 0 < value < 0.095 else f"{value:.2f}"
    return f"k = {found.places[index]}: λ = {shown}{repeated}"


def _caption(found: Substructures) -> str:
    total = len(found.drawing)
    shown = len(found.places)
    some = (
        ""
        if shown == total
        else f" Of {total} eigenvectors the {shown - shown // 2} lowest and the {shown // 2} "
        "highest frequencies are shown."
    )
    repeated = (
        " The eigenvectors of a repeated eigenvalue (×) are one basis of many; the one shown "
        "depends on the graph alone."
        if (found.multiplicities > 1).any()
        else ""
    )
    return (
        f"Substructures of {_shortened(found.name)}, as its eigenvectors show them: "
        f"each panel colours node i by uₖ[i], in order of the frequency λₖ. Low frequencies bring "
        f"out large parts, high ones neighbours of opposite sign.{some}{repeated}"
    )


def _shortened(name: str, most: int = 60) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
