"""What nodes and edges contribute to a prediction, as a coloured drawing with its numbers."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from eigenformer.analysis.attribution import Attribution
from eigenformer.analysis.drawing import Drawing
from eigenformer.pages.graph_svg import Shades, graph_svg
from eigenformer.pages.page import render
from eigenformer.targets import Target

_TITLES = {"occlusion": "if it is removed", "gradients": "by integrated gradients"}
_LARGEST = 6
_SMALL_GAP = 0.02  # of what the contributions should add up to


def attribution_html(
    found: Attribution, target: Target, drawing: Drawing, names: tuple[str, ...]
) -> Markup:
    """Returns a card with the drawing of a graph in the colours of its contributions.

    Args:
        found: The contributions.
        target: What is predicted.
        drawing: The drawing of the graph.
        names: The names of the nodes.
    """
    texts = [*names, *(f"{names[i]}–{names[j]}" for i, j in found.pairs.tolist())]
    values = np.concatenate([found.nodes, found.edges])
    titles = [f"{name}: {_signed(target, v)}" for name, v in zip(texts, values, strict=True)]
    end = float(np.abs(values).max(initial=0.0))
    scale = end or 1.0
    shades = Shades(found.nodes / scale, found.pairs, found.edges / scale, titles)
    order = np.argsort(-np.abs(values), kind="stable")[:_LARGEST]
    word = "atom" if drawing.is_molecule else "node"
    return render(
        "attribution.html",
        found=found,
        title=_TITLES[found.method],
        hint=_hint(found, target, drawing),
        drawing=graph_svg(drawing, f"the contribution of each {word}", shades=shades),
        low=_signed(target, -end),
        high=_signed(target, end),
        prediction=target.show(found.prediction),
        largest=", ".join(titles[i].replace(": ", " ") for i in order.tolist()),
        sum=_sum(found, target),
    )


def _hint(found: Attribution, target: Target, drawing: Drawing) -> str:
    node, edge = ("atom", "bond") if drawing.is_molecule else ("node", "edge")
    unit = ", in percentage points" if target.are_shares else ""
    signs = "Orange raises the prediction, blue lowers it."
    if found.method == "occlusion":
        return (
            f"How much of the prediction is lost with each {node} and each {edge}{unit}. What is "
            f"left is predicted as a graph of its own, with the features that it has. {signs}"
        )
    return (
        f"What the features of each {node} add to the prediction{unit}, while those of all "
        f"{node}s grow from nothing to what they are. {signs}"
    )


def _sum(found: Attribution, target: Target) -> str:
    """Returns whether the contributions add up, in words; empty if they need not."""
    if not found.steps:
        return ""
    whole = found.prediction - found.baseline
    shown, total = target.show(found.prediction), float(found.nodes.sum())
    text = (
        f"Contributions add up to {_signed(target, total)}; the prediction is {shown}, and "
        f"{target.show(found.baseline)} without features, a difference of "
        f"{_signed(target, whole)} ({found.steps} steps)."
    )
    if found.gap <= _SMALL_GAP * abs(whole) or found.gap <= 1e-4 * abs(found.prediction):
        return text
    return f"{text} They should be equal, so single contributions are not exact."


def _signed(target: Target, value: float) -> str:
    """Returns a contribution as text: with its sign, and in percent if it is a probability."""
    value = 100 * float(value) if target.are_shares else float(value)
    return f"{value:+.3g}".replace("-", "−")
