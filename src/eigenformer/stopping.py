"""Stops a command from outside: SIGTERM and Ctrl-C end it in time, and never in mid-write."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 130
"""The exit code of a command that was stopped."""

DEADLINE = 8.0
"""Seconds after which a stopped command ends in any case. Schedulers kill after ten to thirty."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Turns the first SIGTERM or SIGINT into a ``KeyboardInterrupt``; ignores any further ones."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Handles the signals from now on. Does nothing outside the main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            return
        self.asked = True
        raise KeyboardInterrupt


@contextmanager
def stopped_in_time(sentence: str, deadline: float = DEADLINE) -> Iterator[StopSignals]:
    """Runs a command that ends within a deadline after SIGTERM or SIGINT.

    The signals raise ``KeyboardInterrupt``. If the command still runs at the deadline, for example
    inside a long library call, the process ends with a sentence and the code :data:`STOPPED`. Files
    are written completely or not at all, so that this is safe at any moment.

    Args:
        sentence: The sentence to print at the deadline.
        deadline: Seconds between the signal and the end of the process.
    """
    stop = StopSignals()
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = [signal.getsignal(number) for number in _SIGNALS]
    # Python writes the number of a signal to this pipe at once, also while the main thread is
    # busy in a library and cannot run a handler.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    pipe_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(reader, done, deadline, sentence), daemon=True)
    watcher.start()
    stop.listen()
    try:
        yield stop
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(pipe_before)
        done.set()
        os.close(writer)


def leave_signals() -> None:
    """Leaves Ctrl-C to the parent of a forked process, and restores the default of SIGTERM."""
    signal.set_wakeup_fd(-1)  # the pipe is the parent's
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _watch(reader: int, done: threading.Event, deadline: float, sentence: str) -> None:
    try:
        while number := os.read(reader, 1):
            if number[0] in _SIGNALS:
                if not done.wait(deadline):
                    print(sentence, file=sys.stderr, flush=True)
                    os._exit(STOPPED)
                return
    finally:
        os.close(reader)
