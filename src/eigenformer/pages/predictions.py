"""A prediction as HTML and in lines of text. What it says is the target's business."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from eigenformer.pages.page import render
from eigenformer.targets import Target

_MOST_SHOWN = 12


def prediction_html(target: Target, prediction: np.ndarray) -> Markup:
    """What is predicted for a graph, or a summary of what is predicted for its nodes."""
    rows = [
        (name, target.show(value), value if target.are_shares else None)
        for name, value in target.overview(prediction).items()
    ]
    kind = "bars" if target.are_shares else "numbers"
    more = max(0, len(rows) - _MOST_SHOWN)
    return render("prediction.html", kind=kind, rows=rows[:_MOST_SHOWN], more=more)


def truth_text(target: Target, truth: np.ndarray | None) -> str:
    """The truth about a graph; empty where it is not known."""
    return "" if truth is None or target.of_nodes else target.truth(truth[0])


def node_lines(
    target: Target, prediction: np.ndarray, truth: np.ndarray | None
) -> list[str] | None:
    """A line on each node's prediction; None where nodes have none."""
    if not target.of_nodes:
        return None
    lines = []
    for node, row in enumerate(prediction):
        line = f"predicted: {target.said(row)}"
        true = "" if truth is None else target.truth(truth[node])
        lines.append(f"{line}, true: {true}" if true else line)
    return lines


def graph_lines(target: Target, prediction: np.ndarray, truth: np.ndarray) -> list[str]:
    """Prediction and truth of a graph, a line each; nothing where they are of its nodes."""
    if target.of_nodes:
        return []
    return [f"predicted {target.said(prediction[0])}", f"true {target.truth(truth[0])}"]
