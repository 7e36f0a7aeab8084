from __future__ import annotations

import pytest

from eigenformer.config import ConfigError, RunConfig, TrainingConfig, load_preset


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"betas": [0.9, 1.5]}, r"betas: expected two numbers in \[0, 1\)"),
        ({"learning_rate": float("nan")}, "learning_rate: must be positive"),
        ({"learning_rate": float("inf")}, "learning_rate: must be positive"),
        ({"warmup_epochs": 3000}, r"warmup_epochs: 3000 is not in \[0, 2000\]"),
        ({"weight_decay": -1.0}, "weight_decay: must not be negative"),
        ({"freeze_norms_after": 1.5}, r"freeze_norms_after: must be in \[0, 1\], got 1.5"),
    ],
)
def test_impossible_training(change, message):
    with pytest.raises(ConfigError, match=message):
        load_preset("zinc").training.replace(**change)


def test_a_part_of_the_settings_is_checked_by_itself():
    RunConfig.check_part({"training": {"epochs": 3}, "model": {"node_encoder": {"width": 3}}})
    for part, message in (
        ({"training": {"epochs": "3"}}, "^training.epochs: expected int"),
        ({"training": {"epoch": 3}}, "^training.epoch: unknown; the nearest is 'epochs'"),
        ({"model": {"node_encoder": 3}}, "^model.node_encoder: expected settings with a 'kind'"),
        ({"model": None}, "^model: expected settings with a 'kind' .*, got None"),
    ):
        with pytest.raises(ConfigError, match=message):
            RunConfig.check_part(part)


def test_a_precision_may_be_written_as_a_number():
    RunConfig.check_part({"precision": 32})
    with pytest.raises(ConfigError, match="precision: '8': unknown"):
        RunConfig.check_part({"precision": 8})


@pytest.mark.parametrize(
    ("share", "epochs", "before"),
    [(0.0, 10, 0), (0.07, 100, 7), (0.55, 100, 55), (0.5, 1, 1), (0.33, 6, 2), (1.0, 7, 7)],
)
def test_how_many_epochs_renew_the_norms(share, epochs, before):
    settings = TrainingConfig(8, 1e-3, epochs, 0, freeze_norms_after=share)
    assert settings.epochs_before_freezing == before


def test_as_many_epochs_leave_the_warm_up_as_it_is() -> None:
    """Runs are told from the preset's by their settings, to the last bit."""
    preset = load_preset("cluster-plus").training
    assert (preset.epochs, preset.warmup_epochs) == (18, 0.9)
    assert preset.with_epochs(18) == preset
    assert preset.with_epochs(36).warmup_epochs == pytest.approx(1.8)
