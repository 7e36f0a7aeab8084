"""Whether a model is as sure as it should be: coverage of intervals, truth of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eigenformer.config import ConfigError
from eigenformer.targets import Calibration, Target

_LEVELS = np.linspace(0.05, 0.95, 19)
_BINS = 10
_FEWEST = 10


@dataclass(frozen=True, eq=False)
class Trust:
    """Promises of a model and what came true on the test set.

    Args:
        coverage: ``[levels, 2]``, the level of an interval and the share of targets that it
            contains, over all targets; None if the model gives no intervals.
        frequencies: ``[bins, 2]``, the mean predicted probability and how often it came true, in
            bins with about as many predictions each; None if numbers are predicted.
    """

    coverage: np.ndarray | None
    frequencies: np.ndarray | None


def measure_trust(
    target: Target,
    calibration: Calibration,
    predictions: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
) -> Trust:
    """Compares predictions in units with the truth, graph by graph.

    Args:
        target: What is predicted.
        calibration: How wrong the model was on other graphs.
        predictions: The predictions for each graph.
        targets: The targets of each graph.
    """
    if target.of_nodes or not len(predictions):
        return Trust(None, None)
    guesses, truths = np.concatenate(predictions), np.concatenate(targets)
    outcomes = target.outcomes(guesses, truths)
    return Trust(
        _coverage(target, calibration, guesses, truths),
        None if outcomes is None else _frequencies(*outcomes),
    )


def _coverage(
    target: Target, calibration: Calibration, guesses: np.ndarray, truths: np.ndarray
) -> np.ndarray | None:
    found = []
    for level in _LEVELS:
        try:
            bounds = calibration.bounds(float(level))
        except ConfigError:  # too few validation graphs for this level, or none
            continue
        found.append((level, float(target.covered(guesses, truths, bounds).mean())))
    return np.array(found) if found else None


def _frequencies(probabilities: np.ndarray, happened: np.ndarray) -> np.ndarray | None:
    order = np.argsort(probabilities, kind="stable")
    bins = min(_BINS, len(order) // _FEWEST)
    if not bins:
        return None
    parts = np.array_split(order, bins)
    return np.array([(probabilities[part].mean(), happened[part].mean()) for part in parts])
