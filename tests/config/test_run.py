from __future__ import annotations

import pytest

from eigenformer.config import ConfigError, load_preset


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"betas": [0.9, 1.5]}, r"betas: takes two numbers in \[0, 1\)"),
        ({"learning_rate": float("nan")}, "learning_rate: must be positive"),
        ({"learning_rate": float("inf")}, "learning_rate: must be positive"),
        ({"warmup_epochs": 3000}, "warmup_epochs: 3000 of 2000 epochs"),
        ({"weight_decay": -1.0}, "weight_decay: must not be negative"),
    ],
)
def test_impossible_training(change, message):
    with pytest.raises(ConfigError, match=message):
        load_preset("zinc").training.replace(**change)
