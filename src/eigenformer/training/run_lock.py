"""One process per run folder: a lock that says who holds it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from eigenformer.files import remove_leftovers, write_atomic
from eigenformer.training.run_folder import HOLDER, LOCK, RunError


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Holds a run folder for this process, and removes what killed processes left there.

    Raises :class:`RunError` if another process holds the folder. The operating system releases the
    lock when a process ends in any way, so that a killed run never blocks its folder.
    """
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunError(
            f"{folder}: in use by {_holder(folder)}; wait until it ends, or stop it"
        ) from None
    except OSError as error:
        raise RunError(f"{folder}: cannot be locked ({error.strerror})") from None
    try:
        remove_leftovers(folder)
        holder = {"host": platform.node(), "process": os.getpid()}
        write_atomic(folder / HOLDER, json.dumps(holder).encode())
        yield
    finally:
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def _holder(folder: Path) -> str:
    """Returns the process that holds a folder in words."""
    try:
        holder = json.loads((folder / HOLDER).read_text("utf-8"))
        return f"process {int(holder['process'])} on {holder['host']}"
    except (OSError, ValueError, LookupError, TypeError):  # it has not written it yet
        return "another process"
