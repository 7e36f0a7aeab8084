"""Learning is real, on real sets: what takes minutes."""

from __future__ import annotations

import pytest

from eigenformer.cli import main
from eigenformer.training.run_folder import RunFolder

pytestmark = pytest.mark.slow


def test_pattern_from_its_own_generator_is_learnt(tmp_path):
    """The demo: 500 graphs to train on, about a minute."""
    out = tmp_path / "run"
    assert main(["demo", "--out", str(out), "--threads", "1"]) == 0
    assert RunFolder(out).read_summary()["test"] > 0.8


def test_zinc_is_learnt(tmp_path, raw_dir):
    """Four epochs on 3,000 molecules beat saying the median, which has an MAE of 1.55."""
    out = tmp_path / "run"
    arguments = ["--epochs", "4", "--model.layers", "4", "--threads", "1", "--limit", "3000"]
    assert main(["train", "zinc", "--out", str(out), *arguments]) == 0
    assert RunFolder(out).read_summary()["test"] < 1.2
