"""A page about one graph: prediction, contributions, spectrum, and every head to click through."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from eigenformer.analysis.drawing import Drawing, names_of
from eigenformer.analysis.explanation import Explanation
from eigenformer.pages.attribution import attribution_html
from eigenformer.pages.graph_svg import Layout, graph_svg
from eigenformer.pages.page import make_page, packed, render
from eigenformer.pages.predictions import node_lines, prediction_html, truth_text

_SAMPLES = 81  # of φ₂: more than the pixels of its picture can show
_STEPS = 255
_FEW_LAYERS = 6  # so few that there is room below the heads


def explain_page(explanation: Explanation) -> str:
    """Returns the page as self-contained HTML."""
    view = explanation.view
    drawing = view.drawing
    layers, heads = (0, 0) if explanation.attention is None else explanation.attention.shape[:2]
    names = _node_names(explanation)
    few = layers <= _FEW_LAYERS
    cards = [
        attribution_html(found, explanation.target, drawing, names)
        for found in explanation.attributions
    ]
    body = render(
        "explain.html",
        name=view.name,
        model=explanation.model,
        what="an atom" if drawing.is_molecule else "a node",
        counts=_counts(drawing),
        formula=_formula(drawing),
        layers=layers,
        heads=heads,
        prediction=prediction_html(explanation.target, explanation.prediction),
        truth=truth_text(explanation.target, explanation.truth),
        remark=explain_remark(explanation),
        drawing=graph_svg(drawing, f"{view.name}, drawn", names),
        left=cards[not few :: 2],  # the first card goes to the shorter column
        right=cards[few::2],
        frequencies=len(view.eigenvalues) - 1,
        room_below_heads=few,
    )
    title = f"{view.name} · {explanation.model}"
    styles = ("page.css", "explain.css")
    if explanation.attention is None:
        return make_page(title, body, styles)
    data = _data(explanation, explanation.attention)
    return make_page(title, body, styles, ("explain.js",), data)


def pack_attention(attention: np.ndarray) -> tuple[str, str]:
    """Returns a byte per weight, and the largest weight per row.

    A byte is the square root of a weight relative to the largest in its row, in 255 steps. Most
    weights are small, and the square root preserves their relative size.
    """
    peaks = attention.max(-1)
    relative = attention / np.maximum(peaks[..., None], 1e-30)
    steps = np.rint(_STEPS * np.sqrt(relative)).astype(np.uint8)
    return packed(steps), packed(peaks.astype(np.float32))


def _data(explanation: Explanation, attention: np.ndarray) -> dict[str, Any]:
    view, layout = explanation.view, Layout(explanation.view.drawing)
    layers, heads, nodes = attention.shape[:3]
    weights, peaks = pack_attention(attention)
    vectors = view.eigenvectors
    largest = np.abs(vectors).max(0, keepdims=True)
    waves = np.rint(127 * vectors / np.maximum(largest, 1e-30)).astype(np.int8)
    filters = explanation.filters
    assert filters is not None  # it comes with the attention
    samples = np.linspace(0, len(filters.eigenvalues) - 1, _SAMPLES).round().astype(int)
    phi2 = filters.phi2[..., samples]
    low, high = phi2.min(-1), phi2.max(-1)
    height = np.rint(_STEPS * (phi2 - low[..., None]) / np.maximum(high - low, 1e-30)[..., None])
    return {
        "layers": layers,
        "heads": heads,
        "nodes": nodes,
        "what": "atom" if view.drawing.is_molecule else "node",
        "names": _node_names(explanation),
        "told": node_lines(explanation.target, explanation.prediction, explanation.truth),
        "width": round(layout.width, 1),
        "height": round(layout.height, 1),
        "radius": round(layout.radius, 1),
        "positions": layout.positions.round(1).ravel().tolist(),
        "edges": view.drawing.edges.ravel().tolist(),
        "weights": weights,
        "peaks": peaks,
        "eigenvalues": [round(float(value), 4) for value in view.eigenvalues],
        "waves": packed(waves.T),
        "phi2": packed(height.astype(np.uint8)),
        "phi2Low": packed(low.astype(np.float32)),
        "phi2High": packed(high.astype(np.float32)),
    }


def _node_names(explanation: Explanation) -> tuple[str, ...]:
    drawing = explanation.view.drawing
    names = names_of(drawing.labels)
    return names if drawing.is_molecule else tuple(f"node {name}" for name in names)


def explain_remark(explanation: Explanation) -> str:
    """Returns what a reader must know before trusting the prediction; empty if nothing."""
    if not explanation.unknown:
        return ""
    names = _node_names(explanation)
    which = ", ".join(names[node] for node in explanation.unknown)
    return f"The training data had no atoms like {which}: do not trust this prediction."


def _counts(drawing: Drawing) -> str:
    if not drawing.is_molecule:
        return f"{len(drawing)} nodes, {len(drawing.edges)} edges"
    hydrogen = any(kind == "H" for kind, _ in _formula(drawing))
    return f"{len(drawing)} {'atoms' if hydrogen else 'heavy atoms'}, "


def _formula(drawing: Drawing) -> list[tuple[str, int]]:
    """Returns the number of atoms per element: carbon first, then in alphabetical order."""
    if not drawing.is_molecule:
        return []
    kinds = Counter(label.rstrip("0123456789+−") for label in drawing.labels)
    return sorted(kinds.items(), key=lambda item: (item[0] != "C", item[0]))
