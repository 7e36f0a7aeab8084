"""Schedules that fit a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenformer.config import ConfigError, TrainingConfig
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.budget import StepTimes, fit_schedule, measure_times
from eigenformer.training import plan
from tests.experiments.test_demo import SETTINGS

TRAINING = TrainingConfig(batch_size=10, learning_rate=0.001, epochs=100, warmup_epochs=5)


@pytest.mark.parametrize("seconds", [2.5, 25.0, 40.0, 1234.5])
def test_the_schedule_ends_when_the_time_is_up(seconds: float) -> None:
    times = StepTimes(step=0.1, validation=2.0)  # an epoch of 100 graphs takes three seconds
    training = fit_schedule(TRAINING, times, 100, seconds)
    steps = training.epoch_steps or 10
    used = training.epochs * (steps * times.step + times.validation)
    assert used <= seconds + 1e-9
    assert seconds - used <= training.epochs * times.step + 1e-9  # not one more step per epoch
    assert steps <= 10
    assert training.warmup_epochs == pytest.approx(0.05 * training.epochs)


def test_less_than_an_epoch_is_a_part_of_the_graphs() -> None:
    training = fit_schedule(TRAINING, StepTimes(1.0, 4.0), 1000, 54.5)
    assert (training.epochs, training.epoch_steps) == (1, 50)


def test_one_more_validation_may_cost_too_much() -> None:
    training = fit_schedule(TRAINING, StepTimes(0.1, 2.0), 100, 3.5)
    assert (training.epochs, training.epoch_steps) == (1, None)


def test_too_short_for_a_validation() -> None:
    with pytest.raises(ConfigError, match="hours: 0.000278 is too short"):
        fit_schedule(TRAINING, StepTimes(0.1, 2.0), 100, 1.0)


@pytest.mark.parametrize("least", [0, 10])
def test_measures_what_a_run_does(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the measurement stops in the middle of an epoch."""
    monkeypatch.setattr("eigenformer.experiments.budget._LEAST", least)
    monkeypatch.setattr("eigenformer.experiments.budget._SECONDS", 0.0)
    config, data = plan(SETTINGS, workspace=Workspace(None, tmp_path))
    times = measure_times(config, data)
    assert 0 < times.step < 10
    assert 0 < times.validation < 10
