"""Formats a prediction as HTML and as lines of text. The target provides the words."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from eigenformer.pages.page import render
from eigenformer.targets import Target

_MOST_SHOWN = 12


def prediction_html(target: Target, prediction: np.ndarray) -> Markup:
    """Returns the prediction for a graph, or a summary of the predictions for its nodes."""
    rows = [
        (name, target.show(value), value if target.are_shares else None)
        for name, value in target.overview(prediction).items()
    ]
    kind = "bars" if target.are_shares else "numbers"
    more = max(0, len(rows) - _MOST_SHOWN)
    return render("prediction.html", kind=kind, rows=rows[:_MOST_SHOWN], more=more)


def truth_text(target: Target, truth: np.ndarray | None) -> str:
    """Returns the truth of a graph; empty if it is not known."""
    return "" if truth is None or target.of_nodes else target.truth(truth[0])


def node_lines(
    target: Target, prediction: np.ndarray, truth: np.ndarray | None
) -> list[str] | None:
    """Returns a line per node with its prediction; None if nodes have no predictions."""
    if not target.of_nodes:
        return None
    lines = []
    for node, row in enumerate(prediction):
        line = f"predicted: {target.said(row)}"
        true = "" if truth is None else target.truth(truth[node])
        lines.append(f"{line}, true: {true}" if true else line)
    return lines


def graph_lines(target: Target, prediction: np.ndarray, truth: np.ndarray) -> list[str]:
    """Returns a line each for prediction and truth of a graph; empty for node targets."""
    if target.of_nodes:
        return []
    return [f"predicted {target.said(prediction[0])}", f"true {target.truth(truth[0])}"]
