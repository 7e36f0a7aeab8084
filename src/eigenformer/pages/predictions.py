"""A prediction in words and bars: numbers in the user's units, or probabilities."""

from __future__ import annotations

from collections import Counter

import numpy as np
from markupsafe import Markup

from eigenformer.outputs import Outputs
from eigenformer.pages.page import number, render

_MOST_SHOWN = 12


def prediction_html(outputs: Outputs, prediction: np.ndarray) -> Markup:
    """What is predicted for a graph, or a summary of what is predicted for its nodes."""
    names = output_names(outputs)
    if outputs.level == "node":
        if outputs.kind == "regression":
            return _numbers([f"mean {name}" for name in names], prediction.mean(0))
        return _bars(_predicted_shares(outputs, prediction))
    if outputs.kind == "regression":
        return _numbers(names, prediction[0])
    values = dict(zip(names, prediction[0].tolist(), strict=True))
    if outputs.kind == "multiclass":
        values = dict(sorted(values.items(), key=lambda item: -item[1]))
    return _bars(values)


def truth_text(outputs: Outputs, target: np.ndarray | None) -> str:
    """The truth about a graph; empty where it is not known."""
    return "" if target is None or outputs.level == "node" else _truth(outputs, target[0])


def node_lines(
    outputs: Outputs, prediction: np.ndarray, target: np.ndarray | None
) -> list[str] | None:
    """A line on each node's prediction; None where nodes have none."""
    if outputs.level != "node":
        return None
    lines = []
    for node, row in enumerate(prediction):
        line = f"predicted: {_said(outputs, row)}"
        truth = "" if target is None else _truth(outputs, target[node])
        lines.append(f"{line}, true: {truth}" if truth else line)
    return lines


def output_names(outputs: Outputs) -> tuple[str, ...]:
    """The targets' names, or the classes'; numbers where they have none."""
    if outputs.names:
        return outputs.names
    if outputs.num_outputs == 1:
        return ("prediction",)
    return tuple(map(str, range(outputs.num_outputs)))


def percent(value: float) -> str:
    """A probability as a percentage that is never rounded to certainty."""
    shown = 100 * value
    if 0 < shown < 0.1:
        return "<0.1 %"
    if 99.9 < shown < 100:
        return ">99.9 %"
    return f"{shown:.1f} %"


def graph_lines(outputs: Outputs, prediction: np.ndarray, target: np.ndarray) -> list[str]:
    """Prediction and truth of a graph, a line each; nothing where they are of its nodes."""
    if outputs.level == "node":
        return []
    said, truth = _said(outputs, prediction[0]), _truth(outputs, target[0])
    return [f"predicted {said}", f"true {truth}"]


def _said(outputs: Outputs, row: np.ndarray) -> str:
    names = output_names(outputs)
    if outputs.kind == "multiclass":
        best = int(np.argmax(row))
        return f"{names[best]} ({percent(float(row[best]))})"
    show = number if outputs.kind == "regression" else percent
    if len(row) == 1:
        return show(float(row[0]))
    return _several(names, [show(float(value)) for value in row])


def _truth(outputs: Outputs, row: np.ndarray) -> str:
    names = output_names(outputs)
    if outputs.kind == "multiclass":
        return names[int(row)] if 0 <= int(row) < len(names) else ""
    values = np.atleast_1d(row)
    if np.isnan(values).all():
        return ""
    if outputs.kind == "regression":
        shown = ["unknown" if np.isnan(v) else number(float(v)) for v in values]
    else:
        shown = ["unknown" if np.isnan(v) else "yes" if v > 0.5 else "no" for v in values]
    return shown[0] if len(shown) == 1 else _several(names, shown)


def _several(names: tuple[str, ...], shown: list[str]) -> str:
    pairs = [f"{name} {value}" for name, value in zip(names, shown, strict=True)]
    more = "" if len(pairs) <= _MOST_SHOWN else ", …"
    return ", ".join(pairs[:_MOST_SHOWN]) + more


def _predicted_shares(outputs: Outputs, prediction: np.ndarray) -> dict[str, float]:
    """Of the nodes, the share that is predicted to be of each class."""
    names = output_names(outputs)
    if outputs.kind == "multiclass":
        found = Counter(prediction.argmax(1).tolist())
        return {
            f"nodes that are {name}": found[i] / len(prediction) for i, name in enumerate(names)
        }
    shares = (prediction > 0.5).mean(0).tolist()
    return {f"nodes that are {name}": share for name, share in zip(names, shares, strict=True)}


def _numbers(names: tuple[str, ...] | list[str], values: np.ndarray) -> Markup:
    shown = [number(float(value)) for value in values]
    return _rows("numbers", [(*pair, None) for pair in zip(names, shown, strict=True)])


def _bars(values: dict[str, float]) -> Markup:
    return _rows("bars", [(name, percent(value), value) for name, value in values.items()])


def _rows(kind: str, rows: list[tuple[str, str, float | None]]) -> Markup:
    """Names and values, with a bar where there is a share; of many the first."""
    more = max(0, len(rows) - _MOST_SHOWN)
    return render("prediction.html", kind=kind, rows=rows[:_MOST_SHOWN], more=more)
