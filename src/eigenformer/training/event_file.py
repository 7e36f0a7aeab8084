"""The metrics of a run as TensorBoard events."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from eigenformer.training.run_folder import LOGS


class EventFile(Logger):
    """Writes metrics for TensorBoard, at once and in this thread.

    TensorBoard's own writer has a thread. On a full disk the thread prints a traceback, and after
    an interrupted write it takes two minutes to end.

    Args:
        folder: The run folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder / LOGS
        self._file: BinaryIO | None = None

    @property
    def name(self) -> str:
        return LOGS

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self.folder)

    def log_hyperparams(self, *arguments: Any, **options: Any) -> None:
        """Does nothing: ``config.yaml`` has the settings."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._file is None:
            self._file = self._new_file()
            self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._write(Event(wall_time=time.time(), step=step or 0, summary=Summary(value=values)))

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._file is not None:
            with suppress(OSError):  # it was raised before, when the disk became full
                self._file.close()
            self._file = None

    def _new_file(self) -> BinaryIO:
        self.folder.mkdir(exist_ok=True)
        place = f"{int(time.time()):010}.{platform.node()}.{os.getpid()}"
        number = len(list(self.folder.iterdir()))
        return (self.folder / f"events.out.tfevents.{place}.{number}").open("xb")

    def _write(self, event: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        assert self._file is not None
        try:
            RecordWriter(self._file).write(event.SerializeToString())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._file.name) from error
