"""How long the runs of a comparison may take, and the schedules that fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from eigenformer.config import ConfigError, TrainingConfig
from eigenformer.experiments.cost import Cost

Equal = Literal["time", "epochs"]
"""What the runs of a comparison have in common."""


@dataclass(frozen=True)
class Budget:
    """How long each run of a comparison may take.

    Args:
        epochs: The number of epochs of the first variant.
        minutes: The processor minutes of every run, instead.
        equal: Whether all runs have the same ``time``, or the same number of ``epochs``.
    """

    epochs: int
    minutes: float | None = None
    equal: Equal = "time"

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ConfigError(f"epochs: must be at least 1, got {self.epochs}")
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise ConfigError(f"minutes: must be positive, got {self.minutes}")
        if self.minutes is not None and self.equal == "epochs":
            raise ConfigError("minutes: runs of equal epochs take unequal times; use epochs")

    def shared(self, costs: Mapping[str, Cost]) -> dict[str, int]:
        """Returns the number of epochs of each variant, given their costs by name, in order."""
        if self.equal == "epochs":
            return dict.fromkeys(costs, self.epochs)
        first = next(iter(costs.values()))
        seconds = self.epochs * first.epoch if self.minutes is None else 60 * self.minutes
        # Rounded, not cut: a cost that is measured one percent higher is not one epoch less.
        epochs = {name: round(seconds / cost.epoch) for name, cost in costs.items()}
        for name, count in epochs.items():
            if not count:
                raise ConfigError(
                    f"{seconds / 60:.2g} minutes are too short for an epoch of {name}, which "
                    f"takes {costs[name].epoch / 60:.2g}"
                )
        return epochs


def fit_schedule(training: TrainingConfig, cost: Cost, seconds: float) -> TrainingConfig:
    """Returns the training with a schedule that ends when the processor time is used up.

    The last epoch is shared by all epochs: each has a few steps less than all graphs need. If not
    even one epoch fits, there is one, on a part of the graphs. The warm-up scales in proportion.

    Args:
        training: The training settings.
        cost: What an epoch costs.
        seconds: The processor time.
    """

    def steps_in(epochs: int) -> int:
        return math.floor((seconds / epochs - cost.validation) / cost.step)

    epochs = max(1, math.ceil(seconds / cost.epoch))
    if epochs > 1 and steps_in(epochs) < cost.steps / 2:  # one more validation would cost too much
        epochs -= 1
    steps = steps_in(epochs)
    if steps < 1:
        raise ConfigError(
            f"hours: {seconds / 3600:.3g} is too short for a step and a validation, which take "
            f"{(cost.step + cost.validation) / 3600:.3g} processor hours"
        )
    return training.with_epochs(epochs).replace(epoch_steps=steps if steps < cost.steps else None)
