"""How wrong a model was on graphs that it was not trained on, and the intervals that follow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from eigenformer.config import ConfigError, Settings

# More scores are thinned out: a model card should stay small.
_MOST = 400


@dataclass(frozen=True)
class Calibration(Settings):
    r"""Scores of predictions for graphs with known targets, for split conformal prediction.

    A score says how far a target is from its prediction; see :meth:`Target.scores`. If a new graph
    is like these graphs, its score is at most the :math:`\lceil (n + 1) p \rceil`-th smallest of
    their :math:`n` scores with a probability of at least :math:`p`. See `"A Gentle Introduction to
    Conformal Prediction" <https://arxiv.org/abs/2107.07511>`_.

    Args:
        scores: The scores of each target, in ascending order. Empty if none are known.
    """

    scores: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def from_scores(cls, columns: Iterable[np.ndarray]) -> Calibration:
        """Keeps the scores of each target. Those of missing targets, NaN, are left out."""
        return cls(tuple(_kept(np.asarray(column, dtype=np.float64)) for column in columns))

    def check(self) -> None:
        for column in self.scores:
            if not np.isfinite(column).all() or list(column) != sorted(column):
                raise ConfigError("scores: expected finite numbers in ascending order")

    def bounds(self, level: float) -> np.ndarray:
        """Returns the largest likely score of each target; ``level`` is its probability.

        Raises an error if there are too few scores for this level.
        """
        check_level(level)
        if not self.scores:
            raise ConfigError(
                "interval: the model was not calibrated on a validation set; train it again"
            )
        found = []
        for column in self.scores:
            rank = math.ceil((len(column) + 1) * level - 1e-9)
            if rank > len(column):
                least = math.ceil(level / (1 - level) - 1e-9)
                raise ConfigError(
                    f"interval: {level:g} needs {least} graphs with a known target to calibrate "
                    f"on, but the validation set has {len(column)}; use a lower level"
                )
            found.append(column[rank - 1])
        return np.array(found)


def check_level(level: float) -> None:
    """Raises an error if a level is not a probability between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigError(f"interval: must be between 0 and 1, such as 0.9, got {level:g}")


def _kept(column: np.ndarray) -> tuple[float, ...]:
    known = np.sort(column[np.isfinite(column)])
    if len(known) > _MOST:
        known = known[np.ceil(np.linspace(1, len(known), _MOST)).astype(int) - 1]
    return tuple(known.tolist())
