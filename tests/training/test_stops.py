"""How training ends before its last epoch."""

from __future__ import annotations

import os
import signal

import pytest
from lightning.pytorch.callbacks import EarlyStopping
from torch.utils.tensorboard import SummaryWriter

from eigenformer.stopping import StopSignals
from eigenformer.training.stops import PostponingLogger, StopEarly


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_a_signal_waits_until_tensorboard_has_written(tmp_path, monkeypatch):
    """An interrupted write is noticed by TensorBoard's thread two minutes later only."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stop, written = StopSignals(), []
    logger = PostponingLogger(tmp_path, stop)
    write = SummaryWriter.add_scalar

    def struck(writer, *arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        write(writer, *arguments, **options)
        written.append(arguments[0])

    monkeypatch.setattr(SummaryWriter, "add_scalar", struck)
    try:
        stop.listen()
        with pytest.raises(KeyboardInterrupt):
            logger.log_metrics({"loss": 1.0}, 1)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    assert written == ["loss"]
    logger.finalize("failed")


def test_checkpoints_of_earlier_versions_have_the_state_of_the_early_stop():
    ours, theirs = StopEarly("val_mae", 3, False), EarlyStopping("val_mae", mode="min")
    assert ours.state_key == theirs.state_key
