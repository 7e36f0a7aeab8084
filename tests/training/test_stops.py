"""How training ends before its last epoch."""

from __future__ import annotations

from lightning.pytorch.callbacks import EarlyStopping

from eigenformer.training.stops import StopEarly


def test_checkpoints_of_earlier_versions_have_the_state_of_the_early_stop():
    ours, theirs = StopEarly("val_mae", 3, False), EarlyStopping("val_mae", mode="min")
    assert ours.state_key == theirs.state_key
