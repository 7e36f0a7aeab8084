"""The former place of :mod:`eigenformer.training.scores`."""

from eigenformer.training.scores import MeanLoss, Score

__all__ = ["MeanLoss", "Score"]
