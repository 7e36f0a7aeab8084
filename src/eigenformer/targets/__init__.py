"""What a model predicts: one class per kind of target. Does not import PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from eigenformer.config import ConfigError
from eigenformer.config.settings import kinds_of
from eigenformer.nearest import unknown
from eigenformer.targets.base import LOWER_IS_BETTER, Target, TargetLevel
from eigenformer.targets.calibration import Calibration
from eigenformer.targets.classes import ClassTarget
from eigenformer.targets.gaussian import GaussianTarget
from eigenformer.targets.labels import LabelTarget, are_labels
from eigenformer.targets.numbers import NumberTarget

__all__ = [
    "KINDS",
    "LOWER_IS_BETTER",
    "Calibration",
    "ClassTarget",
    "GaussianTarget",
    "LabelTarget",
    "NumberTarget",
    "Target",
    "infer_target",
    "known_metrics",
    "make_target",
    "target_class",
]

KnownTarget = NumberTarget | GaussianTarget | ClassTarget | LabelTarget
"""All kinds of targets. Add a new kind here."""

KINDS: dict[str, type[Target]] = kinds_of(get_args(KnownTarget))  # type: ignore[assignment]
"""The class of each kind, by its name in settings and files."""


def target_class(kind: str) -> type[Target]:
    """Returns the class of a kind. The error for an unknown name suggests the nearest one."""
    if kind not in KINDS:
        raise ConfigError(unknown(f"task: '{kind}'", kind, KINDS))
    return KINDS[kind]


def known_metrics() -> tuple[str, ...]:
    """Returns the metrics of all kinds."""
    targets = (make_target(kind, level=level) for kind in KINDS for level in get_args(TargetLevel))
    return tuple(dict.fromkeys(name for target in targets for name in target.metrics))


def make_target(kind: str, **values: Any) -> Target:
    """Returns a target of this kind."""
    return target_class(kind)(kind=kind, **values)


def infer_target(
    values: np.ndarray,
    names: Sequence[str] = (),
    kind: str | None = None,
    level: TargetLevel = "graph",
) -> Target:
    """Returns the target that fits the values ``[rows]`` or ``[rows, columns]``.

    Args:
        values: The targets, NaN for missing ones.
        names: The names of the columns or classes.
        kind: The kind of target; None to infer it from the values: zeros and ones are labels,
            other whole numbers from 0 are classes, everything else is numbers.
        level: Whether graphs or nodes have targets.
    """
    if kind is None:
        whole = values.dtype.kind in "biu" and values.ndim == 1 and values.min(initial=0) >= 0
        if are_labels(values):
            kind = "multilabel" if values.ndim > 1 and values.shape[1] > 1 else "binary"
        else:
            kind = "multiclass" if whole else "regression"
    return target_class(kind).from_values(kind, values, names, level)
