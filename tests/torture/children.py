"""Commands in child processes that something happens to at one moment of their life.

A child is forked from a process that has imported everything, since only what the command does
matters. A share of the commands runs in new processes, which are also struck while they import.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# The operations on files whose number is the clock of a command.
OPERATIONS = ("open", "replace", "rename", "fsync", "unlink", "mkdir", "rmdir", "chmod")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        code: The exit code; negative for a signal, as in ``subprocess``.
        output: Everything it printed.
        seconds: The seconds since it was struck; 0 if it never was.
    """

    code: int
    output: str
    seconds: float = 0.0


class Clock:
    """Counts operations on files, and calls ``strike`` before the one with a given number."""

    def __init__(self, moment: int | None = None, strike: Callable[[], None] | None = None) -> None:
        self.count, self.moment, self.strike = 0, moment, strike

    def start(self) -> None:
        """Replaces the functions of ``os``. For a forked process only."""
        for name in OPERATIONS:
            setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, operation: Callable) -> Callable:
        def counted(*arguments: object, **options: object) -> object:
            self.count += 1
            if self.count == self.moment and self.strike is not None:
                self.strike()
            return operation(*arguments, **options)

        return counted


def fork(arguments: Sequence[str], log: Path, clock: Clock | None = None) -> int:
    """Runs a command in a forked process that writes to ``log``, and returns its number."""
    sys.stdout.flush()
    numbers = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # until the child can handle them
    process = os.fork()
    if process:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        return process
    for number in numbers:  # the first moments, as in a new process
        signal.signal(number, lambda *_: os._exit(130))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    code = 70
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        from eigenformer.cli import main

        if clock is not None:
            clock.start()
        code = main(list(arguments))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        if clock is not None and clock.moment is None:
            log.with_suffix(".count").write_text(str(clock.count))
        os._exit(code)


def run(arguments: Sequence[str], log: Path, clock: Clock | None = None) -> Ended:
    """Runs a command to its end in a forked process."""
    log.unlink(missing_ok=True)
    return _ended(fork(arguments, log, clock), log, 0.0)


def struck_in_time(
    arguments: Sequence[str], log: Path, number: int, delay: float, new: bool = False
) -> Ended:
    """Sends a signal after a number of seconds, to a forked or a new process."""
    log.unlink(missing_ok=True)
    if new:
        command = [sys.executable, "-m", "eigenformer", *arguments]
        with log.open("w") as stream:
            child = subprocess.Popen(command, stdout=stream, stderr=stream)
        process = child.pid
    else:
        process = fork(arguments, log)
    time.sleep(delay)
    struck = time.monotonic()
    os.kill(process, number)  # a child that has ended is still there until it is waited for
    if new:
        code = child.wait()
        return Ended(code, log.read_text(), time.monotonic() - struck)
    return _ended(process, log, struck)


def _ended(process: int, log: Path, struck: float) -> Ended:
    _, status = os.waitpid(process, 0)
    seconds = time.monotonic() - struck if struck else 0.0
    output = log.read_text() if log.exists() else ""
    return Ended(os.waitstatus_to_exitcode(status), output, seconds)
