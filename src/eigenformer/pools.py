"""Where work is shared out: to processes of this machine, or to a Ray cluster (extra ``ray``)."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from typing import Any


@dataclass(frozen=True)
class Pool:
    """Workers that do pieces of work at the same time.

    Args:
        size: The number of workers.
        cluster: The address of a Ray cluster; None for processes of this machine.
    """

    size: int = 1
    cluster: str | None = None

    @classmethod
    def resolve(cls, size: int | None = None, cluster: str | None = None) -> Pool:
        """Creates a pool. By default it has one worker per core of the machine or the cluster."""
        if size is None:
            size = _cores(cluster) if cluster is not None else os.cpu_count() or 1
        return cls(size, cluster)

    def open(self, start: Callable[[], None]) -> Executor:
        """Starts the workers.

        Args:
            start: Called once in each process of this machine. A cluster looks after its own.
        """
        if self.cluster is not None:
            return RayExecutor(self.cluster)
        # No copies of this process: they would share PyTorch's threads.
        return ProcessPoolExecutor(self.size, _new_processes(), start)


def _new_processes() -> BaseContext:
    """Returns a way to start processes with nothing of this one.

    On Linux, they are copies of one that has loaded this package and done nothing with it, so that
    loading it takes time and memory once.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "eigenformer.training.prediction"])
    return context


HERE = Pool()
"""No workers: all work is done in this process."""


class RayExecutor(Executor):
    """Runs functions on a Ray cluster, one per core, behind the interface of Python's executors.

    Work that was lost with a machine is done again on another one, as often as necessary. The
    cluster's machines need this package. Functions run in the folder of this process, if their
    machine has it.

    Args:
        address: The address of the cluster: ``HOST:PORT``, ``ray://HOST:PORT``, or ``auto`` for
            one that runs on this machine.
    """

    def __init__(self, address: str) -> None:
        self._ray = _connect(address)
        self._call = self._ray.remote(num_cpus=1, max_retries=-1)(_call)
        self._last: tuple[Any, Any] = (None, None)
        self._futures: dict[Future[Any], Any] = {}

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Starts a piece of work when a core is free. Returns its future."""
        known, stored = self._last
        if known != work:  # the function may carry a model, which is sent once
            stored = self._ray.put(work)
            self._last = (work, stored)
        reference = self._call.remote(os.getcwd(), stored, *args, **kwargs)
        future: Future[Any] = reference.future()
        self._futures[future] = reference
        future.add_done_callback(lambda done: self._futures.pop(done, None))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leaves the cluster. Work that is under way is stopped like by Ctrl-C."""
        if cancel_futures:
            for reference in list(self._futures.values()):
                with contextlib.suppress(Exception):  # finished in the meantime
                    self._ray.cancel(reference)
        if wait and self._futures:
            self._ray.wait(list(self._futures.values()), num_returns=len(self._futures))
        self._ray.shutdown()


def _call(folder: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if os.path.isdir(folder):
        os.chdir(folder)
    return work(*args, **kwargs)


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise ImportError(
            "--ray needs Ray: install it with  pip install 'eigenformer[ray]'"
        ) from None
    if not ray.is_initialized():
        try:
            _knock(address)
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            reason = str(error).strip().partition(". ")[0]
            raise ValueError(f"no Ray cluster at '{address}': {reason}") from error
    return ray


def _knock(address: str) -> None:
    """Raises an error at once if nobody listens there, which Ray would do after two minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=10).close()


def _cores(address: str) -> int:
    return max(int(_connect(address).cluster_resources().get("CPU", 1)), 1)
