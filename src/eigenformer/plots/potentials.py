"""The mean potential against the eigenvalue, one panel per set of graphs."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from eigenformer.analysis.potentials import Curve, Potentials
from eigenformer.plots.picture import Picture, new_picture
from eigenformer.plots.style import BLUE, PAGE, PALE, VERMILION, house_style

_COLUMNS = 3
_NORMAL_95 = 1.96  # standard errors on either side


@house_style()
def draw_potentials(sets: Sequence[Potentials]) -> Picture:
    """Draws one panel per set of graphs."""
    columns = 2 if len(sets) in (2, 4) else min(_COLUMNS, len(sets))
    rows = -(-len(sets) // columns)
    width = PAGE if columns > 1 else PAGE / 2
    picture = new_picture(width, 1.75 * rows + 0.25, _caption(sets), layout="constrained")
    axes = picture.body.subplots(rows, columns, squeeze=False, sharex=True)
    for ax in axes.flat[len(sets) :]:
        ax.axis("off")
    for number, (ax, found) in enumerate(zip(axes.flat, sets, strict=False)):
        _panel(ax, found)
        if number % columns == 0:
            ax.set_ylabel("mean potential σₖ")
        if number + columns >= len(sets):
            ax.set_xlabel("eigenvalue λₖ")
            ax.tick_params(labelbottom=True)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    picture.body.legend(handles, labels, loc="outside upper center", ncols=2, borderaxespad=0.2)
    return picture


def _panel(ax: Axes, found: Potentials) -> None:
    ax.axhline(0, color=PALE, linewidth=0.6)
    _line(ax, found, found.adjacent, VERMILION, "adjacent nodes", "-")
    _line(ax, found, found.others, BLUE, "non-adjacent nodes", (0, (3, 1)))
    ax.set_title(f"{found.name}, {found.graphs:,} graphs", loc="left")
    ax.set_xlim(0, 2)
    ax.set_xticks([0, 0.5, 1, 1.5, 2], ["0", "0.5", "1", "1.5", "2"])
    ax.ticklabel_format(axis="y", scilimits=(-5, 5))
    ax.locator_params(axis="y", nbins=6)


def _line(
    ax: Axes, found: Potentials, curve: Curve, colour: str, label: str, style: object
) -> None:
    x, middle = found.eigenvalues, curve.mean
    for reach, alpha in ((curve.spread, 0.16), (_NORMAL_95 * curve.error, 0.45)):
        ax.fill_between(x, middle - reach, middle + reach, color=colour, alpha=alpha, linewidth=0)
    ax.plot(x, middle, color=colour, linestyle=style, label=label)


def _caption(sets: Sequence[Potentials]) -> str:
    smoothing = sorted({found.bandwidth for found in sets})
    return (
        "Mean potential σₖ[i,j]\u00a0=\u00a0uₖ[i]\u00a0uₖ[j] of pairs of different nodes against "
        "the eigenvalue λₖ of the normalised Laplacian, for adjacent and for non-adjacent pairs: "
        "the mean over the pairs of a graph, then over eigenvalues and graphs, smoothed by a "
        f"Gaussian of width {', '.join(f'{width:g}' for width in smoothing)}. Light bands: one "
        "standard deviation over the eigenvalues; dark bands: the 95 % confidence interval of the "
        "mean over graphs, often no wider than the line. At λ\u00a0=\u00a00 all potentials within "
        "a component are positive."
    )
