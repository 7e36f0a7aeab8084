"""Several processes of one training on this machine: if one is killed, the others do not wait."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.fabric.utilities.distributed import _set_num_threads_if_needed
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher

_INTERVAL, _GRACE = 0.5, 3.0
_FAILED = 2


class WatchedDDP(DDPStrategy):
    """Lightning's DDP, with a message if one of its processes is killed.

    Lightning itself kills the first process without a word.
    """

    def _configure_launcher(self) -> None:
        assert self.cluster_environment is not None
        self._launcher = _WatchingLauncher(
            self.cluster_environment, self.num_processes, self.num_nodes
        )


class _WatchingLauncher(_SubprocessScriptLauncher):
    def launch(
        self, function: Callable, *args: Any, trainer: pl.Trainer | None = None, **kwargs: Any
    ) -> Any:
        self.cluster_environment.validate_settings(self.num_processes, self.num_nodes)
        if not self.cluster_environment.creates_processes_externally:
            self._call_children_scripts()
        _set_num_threads_if_needed(self.num_processes)
        done = threading.Event()
        threading.Thread(target=_watch, args=(self.procs, done), daemon=True).start()
        try:
            return function(*args, **kwargs)
        finally:
            done.set()


def _watch(processes: Sequence[subprocess.Popen], done: threading.Event) -> None:
    """Ends this process if another one ended with an error and this one does not notice."""
    while not done.wait(_INTERVAL):
        for rank, process in enumerate(processes, 1):
            if not process.poll() or done.wait(_GRACE):  # it runs or succeeded; we end ourselves
                continue
            for other in processes:
                other.kill()
            how = f"code {process.returncode}"
            if process.returncode < 0:
                how = f"signal {-process.returncode}"
            print(
                f"eigenformer: process {rank} of {len(processes) + 1} ended ({how}): training "
                f"stopped; resume it with  --resume, or use fewer --devices",
                file=sys.stderr,
                flush=True,
            )
            os._exit(_FAILED)
