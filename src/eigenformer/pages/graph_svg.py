"""A drawing as SVG: bonds with their orders, atoms with their symbols."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from eigenformer.analysis.drawing import Drawing
from eigenformer.pages.page import text

_EDGE = 46.0  # pixels
_WIDEST = 760.0
_LARGEST_RADIUS = 15.0


class Layout:
    """A drawing in pixels, y downwards, with room around it.

    Args:
        drawing: What to lay out.
    """

    def __init__(self, drawing: Drawing) -> None:
        positions = np.asarray(drawing.positions, dtype=np.float64) * (1, -1)
        extent = float(np.ptp(positions, axis=0).max()) if len(positions) else 0.0
        scale = min(_EDGE, _WIDEST / extent) if extent > 0 else _EDGE
        near = _nearest(positions)
        self.radius = float(np.clip(0.33 * near * scale, 2.5, _LARGEST_RADIUS))
        margin = self.radius + 8
        corner = positions.min(0) if len(positions) else np.zeros(2)
        self.positions = (positions - corner) * scale + margin
        self.width, self.height = (
            float(side) * scale + 2 * margin for side in np.ptp(positions, axis=0)
        )


def graph_svg(
    drawing: Drawing,
    label: str,
    names: tuple[str, ...] | None = None,
    marked: Collection[int] = (),
) -> str:
    """The drawing as an SVG element.

    Args:
        drawing: A molecule or any graph.
        label: What to tell people who cannot see it.
        names: Of the nodes, where each is to be a button (default: they are only drawn).
        marked: Nodes to set off from the others.
    """
    layout = Layout(drawing)
    dense = " dense" if len(drawing.edges) > 4 * len(drawing) else ""
    parts = [
        f'<svg class="graph{dense}" viewBox="0 0 {layout.width:.1f} {layout.height:.1f}" '
        f'role="{"img" if names is None else "group"}" aria-label="{text(label)}" '
        f'style="--natural:{layout.width:.0f}px">',
        '<g class="bonds">',
        *_bonds(drawing, layout),
        '</g><g class="arrows"></g><g class="atoms">',
        *_atoms(drawing, layout, names, marked),
        "</g></svg>",
    ]
    return "".join(parts)


def _atoms(
    drawing: Drawing, layout: Layout, names: tuple[str, ...] | None, marked: Collection[int]
) -> Iterator[str]:
    for node, (shown, (x, y)) in enumerate(zip(drawing.letters, layout.positions, strict=True)):
        plain = drawing.is_molecule and not shown
        radius = layout.radius * (0.72 if plain else 1)
        size = layout.radius * (1.05 if len(shown) < 2 else 0.85)
        role = ""
        if names is not None:
            role = (
                f' role="button" tabindex="{0 if node == 0 else -1}" data-node="{node}" '
                f'aria-pressed="false" aria-label="{text(names[node])}"'
            )
        letter = f'<text font-size="{size:.1f}">{text(shown)}</text>' if shown else ""
        kind = "atom" + " plain" * plain + " marked" * (node in marked)
        yield (
            f'<g class="{kind}" transform="translate({x:.1f} {y:.1f})"{role}>'
            f'<circle r="{radius:.1f}"/>{letter}</g>'
        )


def _bonds(drawing: Drawing, layout: Layout) -> Iterator[str]:
    neighbours: dict[int, list[int]] = {}
    for i, j in drawing.edges.tolist():
        neighbours.setdefault(i, []).append(j)
        neighbours.setdefault(j, []).append(i)
    paths: dict[str, list[str]] = {"solid": [], "dashed": []}
    for (i, j), order in zip(drawing.edges.tolist(), drawing.orders.tolist(), strict=True):
        start, end = layout.positions[i], layout.positions[j]
        along = end - start
        length = float(np.hypot(*along)) or 1.0
        along = along / length
        across = np.array([-along[1], along[0]]) * 0.13 * _EDGE
        others = [n for n in (*neighbours[i], *neighbours[j]) if n not in (i, j)]
        middle = (start + end) / 2
        lean = sum(float((layout.positions[n] - middle) @ across) for n in others)
        side = across if lean >= 0 else -across
        short = along * min(0.14 * _EDGE, length / 4)
        inner = (start + side + short, end + side - short)
        if order == 0:
            paths["dashed"].append(_line(start, end))
            continue
        if order == 2 and abs(lean) < 1e-3 * length * length:  # in the open: two lines, even
            half = across / 2
            paths["solid"] += [_line(start + half, end + half), _line(start - half, end - half)]
            continue
        paths["solid"].append(_line(start, end))
        if order == 1.5:
            paths["dashed"].append(_line(*inner))
        elif order == 2:
            paths["solid"].append(_line(*inner))
        elif order == 3:
            paths["solid"] += [_line(start + across, end + across)]
            paths["solid"] += [_line(start - across, end - across)]
    for kind, lines in paths.items():
        if lines:
            yield f'<path class="bond {kind}" d="{"".join(lines)}"/>'


def _line(start: np.ndarray, end: np.ndarray) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"


def _nearest(positions: np.ndarray) -> float:
    """The distance that a node typically has to the one nearest to it."""
    if len(positions) < 2:
        return 1.0
    distance = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    np.fill_diagonal(distance, np.inf)
    return float(np.median(distance.min(1)))
