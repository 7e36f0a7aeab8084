"""Weights that come with the package, for trainings to start from."""

from __future__ import annotations

from pathlib import Path

PRETRAINED = ("molecules",)
"""The names of the models in this folder."""

NEW_WEIGHTS = "none"
"""What to start from instead, for new weights."""


def model_folder_of(start: str) -> Path:
    """Returns the folder of a model to start from: one of :data:`PRETRAINED`, or a path."""
    return Path(__file__).parent / start if start in PRETRAINED else Path(start)
