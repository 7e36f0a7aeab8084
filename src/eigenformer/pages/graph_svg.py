"""Writes a drawing as SVG: bonds with their orders, atoms with their symbols."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from eigenformer.analysis.drawing import Drawing
from eigenformer.pages.page import render, template_text

_EDGE = 46.0  # pixels
_WIDEST = 760.0
_LARGEST_RADIUS = 15.0


class Layout:
    """A drawing in pixels, with y pointing down and a margin.

    Args:
        drawing: The drawing.
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


@dataclass(frozen=True, eq=False)
class Shades:
    """Signed values of nodes and edges, shown as two colours of different strength.

    Args:
        nodes: The value of each node, ``[n]``, between -1 and 1.
        pairs: Pairs of nodes, ``[m, 2]``.
        edges: The value of each pair, ``[m]``, between -1 and 1.
        titles: A text for each node and then for each pair, shown on demand.
    """

    nodes: np.ndarray
    pairs: np.ndarray
    edges: np.ndarray
    titles: Sequence[str]


def graph_svg(
    drawing: Drawing,
    label: str,
    names: tuple[str, ...] | None = None,
    marked: Collection[int] = (),
    shades: Shades | None = None,
) -> Markup:
    """Returns the drawing as an SVG element.

    Args:
        drawing: A molecule or any graph.
        label: A description for people who cannot see it.
        names: The names of the nodes, which makes each a button (default: no buttons).
        marked: Nodes to highlight.
        shades: Values to show as colours (default: none).
    """
    layout, atoms = Layout(drawing), []
    for node, (letter, (x, y)) in enumerate(zip(drawing.letters, layout.positions, strict=True)):
        plain = drawing.is_molecule and not letter
        radius = layout.radius * (0.72 if plain else 1)
        size = layout.radius * (1.05 if len(letter) < 2 else 0.85)
        name = "" if names is None else names[node]
        shade = None if shades is None else _Shade.of(shades.nodes[node], shades.titles[node])
        atoms.append(_Atom(x, y, letter, name, radius, size, plain, node in marked, shade))
    return render(
        "graph.html",
        layout=layout,
        label=label,
        named=names is not None,
        dense=len(drawing.edges) > 4 * len(drawing),
        bonds=_bonds(drawing, layout),
        shades=[] if shades is None else _edge_shades(shades, layout),
        width=1.5 * layout.radius,
        atoms=atoms,
    )


def molecule_picture(drawing: Drawing, label: str) -> Markup:
    """Returns the drawing as a document of its own, as chemists draw: disks have letters only."""
    style = Markup(template_text("picture.css"))
    picture = graph_svg(drawing, label)
    return render("picture.svg", layout=Layout(drawing), style=style, picture=picture)


@dataclass(frozen=True)
class _Atom:
    x: float
    y: float
    letter: str
    name: str
    radius: float
    size: float  # of the letter
    plain: bool
    marked: bool
    shade: _Shade | None


@dataclass(frozen=True)
class _Shade:
    kind: str
    amount: int  # percent
    title: str
    path: str = ""

    @classmethod
    def of(cls, value: float, title: str, path: str = "") -> _Shade:
        """Returns the colour of a value between -1 and 1."""
        return cls("plus" if value > 0 else "minus", round(100 * abs(float(value))), title, path)

    @property
    def is_strong(self) -> bool:
        """Whether the colour is so strong that a letter on it must be light."""
        return self.amount > 55


def _edge_shades(shades: Shades, layout: Layout) -> list[_Shade]:
    titles = shades.titles[len(shades.nodes) :]
    return [
        _Shade.of(value, title, _line(layout.positions[i], layout.positions[j]))
        for (i, j), value, title in zip(shades.pairs.tolist(), shades.edges, titles, strict=True)
    ]


def _bonds(drawing: Drawing, layout: Layout) -> dict[str, str]:
    """Returns the paths of solid and of dashed lines."""
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
        if order == 2 and abs(lean) < 1e-3 * length * length:  # no preferred side: two lines
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
    return {kind: "".join(lines) for kind, lines in paths.items()}


def _line(start: np.ndarray, end: np.ndarray) -> str:
    return f"M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"


def _nearest(positions: np.ndarray) -> float:
    """Returns the typical distance of a node to its nearest neighbour."""
    if len(positions) < 2:
        return 1.0
    distance = np.hypot(*(positions[:, None] - positions[None]).transpose(2, 0, 1))
    np.fill_diagonal(distance, np.inf)
    return float(np.median(distance.min(1)))
