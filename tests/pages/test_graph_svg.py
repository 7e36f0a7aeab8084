"""Drawings as SVG: every atom, every bond with its order."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from eigenformer.analysis.drawing import Drawing, draw_graph, draw_smiles
from eigenformer.pages.graph_svg import Layout, Shades, graph_svg


def _lines(svg: str, kind: str) -> int:
    return sum(d.count("M") for d in re.findall(rf'class="bond {kind}" d="([^"]*)"', svg))


@pytest.mark.parametrize(
    ("smiles", "solid", "dashed"),
    [("CC", 1, 0), ("C=C", 2, 0), ("CC=CC", 4, 0), ("C#N", 3, 0), ("c1ccccc1", 6, 6)],
)
def test_bonds_show_their_order(smiles: str, solid: int, dashed: int) -> None:
    svg = graph_svg(draw_smiles(smiles), smiles)
    assert (_lines(svg, "solid"), _lines(svg, "dashed")) == (solid, dashed)


def test_atoms_have_symbols_but_carbon() -> None:
    root = ElementTree.fromstring(graph_svg(draw_smiles("C[N+](C)(C)CC(=O)[O-]"), "betaine"))
    assert [element.text for element in root.iter("text")] == ["N+", "O", "O−"]
    assert len(list(root.iter("circle"))) == 8


def test_the_second_line_of_a_ring_bond_is_inside() -> None:
    drawing = draw_smiles("C1=CCCCC1")
    layout = Layout(drawing)
    centre = layout.positions.mean(0)
    lines = re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", graph_svg(drawing, ""))
    middles = np.array(lines, dtype=float).reshape(-1, 2, 2).mean(1)
    distances = np.hypot(*(middles - centre).T)
    assert distances.min() < 0.9 * np.median(distances)


def test_nodes_are_buttons_where_they_have_names() -> None:
    drawing = Drawing(np.zeros((2, 2)), ("<b>", ""), np.array([[0, 1]]), np.ones(1))
    svg = graph_svg(drawing, 'a "label" <', names=("x<", 'y"'))
    buttons = [g for g in ElementTree.fromstring(svg).iter("g") if g.get("role") == "button"]
    assert [button.get("aria-label") for button in buttons] == ["x<", 'y"']
    assert [button.get("tabindex") for button in buttons] == ["0", "-1"]
    assert "button" not in graph_svg(drawing, "")


@pytest.mark.parametrize("nodes", [1, 2, 30])
def test_everything_is_inside_the_picture(nodes: int) -> None:
    layout = Layout(draw_graph(np.zeros((2, 0), np.int64), nodes))
    assert (layout.positions >= layout.radius).all()
    assert (layout.positions <= np.array([layout.width, layout.height]) - layout.radius).all()


def test_values_are_colours_of_two_signs() -> None:
    shades = Shades(
        *(np.array([1.0, -0.25, 0.0]), np.array([[0, 1], [1, 2]]), np.array([-1.0, 0.5])),
        titles=["a: +4", "b <: −1", "c: 0", "a–b: −4", "b–c: +2"],
    )
    root = ElementTree.fromstring(graph_svg(draw_smiles("CCO"), "ethanol", shades=shades))
    (under,) = [group for group in root.iter("g") if group.get("class") == "shades"]
    paths = [(path.get("class"), path.get("style"), path[0].text) for path in under]
    assert paths == [("minus", "--amount:100%", "a–b: −4"), ("plus", "--amount:50%", "b–c: +2")]
    atoms = [group for group in root.iter("g") if "shaded" in group.get("class", "")]
    assert [atom.get("class") for atom in atoms] == [
        "atom plain shaded plus strong",
        "atom plain shaded minus",
        "atom shaded minus",
    ]
    assert [atom[0].text for atom in atoms] == ["a: +4", "b <: −1", "c: 0"]
    assert "shade" not in graph_svg(draw_smiles("CCO"), "ethanol")
