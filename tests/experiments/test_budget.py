"""Schedules that fit a budget."""

from __future__ import annotations

import pytest

from eigenformer.config import ConfigError, TrainingConfig
from eigenformer.experiments.budget import Budget, fit_schedule
from eigenformer.experiments.cost import Cost

TRAINING = TrainingConfig(batch_size=10, learning_rate=0.001, epochs=100, warmup_epochs=5)
COST = {"cheap": Cost(0.1, 0.5, 5), "dear": Cost(0.2, 1.0, 10)}  # 1 and 3 seconds an epoch


@pytest.mark.parametrize("seconds", [2.5, 25.0, 40.0, 1234.5])
def test_the_schedule_ends_when_the_time_is_up(seconds: float) -> None:
    cost = Cost(step=0.1, validation=2.0, steps=10)  # an epoch takes three seconds
    training = fit_schedule(TRAINING, cost, seconds)
    steps = training.epoch_steps or 10
    used = training.epochs * (steps * cost.step + cost.validation)
    assert used <= seconds + 1e-9
    assert seconds - used <= training.epochs * cost.step + 1e-9  # not one more step per epoch
    assert steps <= 10
    assert training.warmup_epochs == pytest.approx(0.05 * training.epochs)


def test_less_than_an_epoch_is_a_part_of_the_graphs() -> None:
    training = fit_schedule(TRAINING, Cost(1.0, 4.0, 100), 54.5)
    assert (training.epochs, training.epoch_steps) == (1, 50)


def test_one_more_validation_may_cost_too_much() -> None:
    training = fit_schedule(TRAINING, Cost(0.1, 2.0, 10), 3.5)
    assert (training.epochs, training.epoch_steps) == (1, None)


def test_too_short_for_a_validation() -> None:
    with pytest.raises(ConfigError, match="hours: 0.000278 is too short"):
        fit_schedule(TRAINING, Cost(0.1, 2.0, 10), 1.0)


def test_equal_time_and_equal_epochs() -> None:
    assert Budget(30).shared(COST) == {"cheap": 30, "dear": 10}
    assert Budget(7, equal="epochs").shared(COST) == {"cheap": 7, "dear": 7}
    assert Budget(1, minutes=0.25).shared(COST) == {"cheap": 15, "dear": 5}
    with pytest.raises(ConfigError, match="too short for an epoch of dear, which takes 0.05"):
        Budget(1).shared(COST)
    with pytest.raises(ConfigError, match="minutes: must be positive, got 0"):
        Budget(1, minutes=0)
    with pytest.raises(ConfigError, match="minutes: runs of equal epochs take unequal times"):
        Budget(1, minutes=1, equal="epochs")
