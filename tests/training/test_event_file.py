"""Metrics as TensorBoard events: readable by TensorBoard, and no threads."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from eigenformer.training.event_file import EventFile


def _read(folder: Path) -> list[tuple[int, str, float]]:
    files = sorted((folder / "tensorboard").iterdir())
    events = [event for file in files for event in EventFileLoader(str(file)).Load()]
    return [
        (event.step, value.tag, value.tensor.float_val[0])
        for event in events
        for value in event.summary.value
    ]


def test_tensorboard_reads_what_is_written(tmp_path):
    log, threads = EventFile(tmp_path), threading.active_count()
    log.log_metrics({"loss": 1.5, "epoch": 0}, 1)
    log.log_metrics({"loss": math.nan}, 2)
    assert threading.active_count() == threads  # a thread prints its own tracebacks
    found = _read(tmp_path)  # every write is complete at once
    assert found[:2] == [(1, "loss", 1.5), (1, "epoch", 0.0)]
    assert math.isnan(found[2][2])
    log.finalize("success")
    log.log_metrics({"test": 2.0}, 3)  # another file
    assert _read(tmp_path)[3] == (3, "test", 2.0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
def test_a_full_disk_is_one_error_with_the_name_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(EventFile, "_new_file", lambda log: open("/dev/full", "wb"))  # noqa: SIM115
    log = EventFile(tmp_path)
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        log.log_metrics({"loss": 1.5}, 1)
    log.finalize("failed")  # does not raise it again
