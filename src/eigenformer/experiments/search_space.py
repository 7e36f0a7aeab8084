"""The settings that a search tries, and between which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eigenformer.config import ConfigError, merge
from eigenformer.targets import Target


@dataclass(frozen=True)
class Range:
    """A number between two others.

    Args:
        place: The dotted name of the setting.
        low: The lowest value.
        high: The highest value.
        log: Whether the logarithm is drawn evenly.
    """

    place: str
    low: float
    high: float
    log: bool = False

    def suggest(self, trial: Any) -> None:
        """Lets an Optuna trial choose a value."""
        trial.suggest_float(self.place, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of several values.

    Args:
        place: The dotted name of the setting.
        values: The values.
    """

    place: str
    values: tuple[Any, ...]

    def suggest(self, trial: Any) -> None:
        """Lets an Optuna trial choose a value."""
        trial.suggest_categorical(self.place, self.values)


Parameter = Range | Choice

SPACE: tuple[Parameter, ...] = (
    Range("training.learning_rate", 1e-4, 3e-3, log=True),
    Choice("training.batch_size", (16, 32, 64, 128)),
    Range("training.weight_decay", 1e-6, 1e-1, log=True),
    Range("model.dropout", 0.0, 0.4),
    Choice("model.layers", (2, 3, 4, 6)),
    Choice("model.hidden_dim", (64, 96, 128, 192)),
    Choice("model.head_layers", (1, 2, 3)),
    Choice("model.pooling", ("mean", "sum")),
)
"""The settings that are searched, for every network."""

# What the shapes of weights depend on.
_OF_WEIGHTS = ("model.layers", "model.hidden_dim")


def searched(
    wanted: Mapping[str, Any], target: Target, trained: bool = False
) -> tuple[Parameter, ...]:
    """Returns the part of the space that is left: a setting that the user has given is fixed.

    If trials start from a ``trained`` model, they all have its layers and its width.
    """
    space = [parameter for parameter in SPACE if not _given(wanted, parameter.place)]
    if target.of_nodes:  # nodes are not pooled
        space = [parameter for parameter in space if parameter.place != "model.pooling"]
    if trained:
        space = [parameter for parameter in space if parameter.place not in _OF_WEIGHTS]
    if not space:
        raise ConfigError("all settings of the search are given: nothing is left to search")
    return tuple(space)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with dotted names as sections: ``{"model": {"layers": 4}}``."""
    settings: dict[str, Any] = {}
    for place, value in values.items():
        section, _, name = place.partition(".")
        settings = merge(settings, {section: {name: value}})
    return settings


def _given(wanted: Mapping[str, Any], place: str) -> bool:
    section, _, name = place.partition(".")
    return name in wanted.get(section, {})
