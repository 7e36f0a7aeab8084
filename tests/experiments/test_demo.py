"""The networks that a result is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenformer.data.workspace import Workspace
from eigenformer.experiments.demo import majority, train_comparable
from eigenformer.training import plan

SETTINGS = {
    "preset": "pattern",
    "data": {"dataset": "pattern", "size": 40},
    "model": {"layers": 2, "hidden_dim": 16, "phi_width": 4},
    "training": {"epochs": 2, "batch_size": 8},
}


def test_training_repeats_itself_and_chance_is_one_half(tmp_path: Path) -> None:
    config, data = plan(SETTINGS, workspace=Workspace(None, tmp_path))
    first, second = (train_comparable("gin", config, data) for _ in range(2))
    assert first == second
    assert first.name == "GIN"
    assert 0.3 < first.test < 1
    assert majority(data).test == pytest.approx(0.5)
