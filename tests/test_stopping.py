"""A command ends in time when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from eigenformer.stopping import StopSignals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

_DEAF = """
import time
from eigenformer.stopping import stopped_in_time
with stopped_in_time("it was stopped", 1.0):
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_does_not_listen_ends_at_the_deadline(number):
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", _DEAF], stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    started = time.monotonic()
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, "it was stopped\n")
    assert time.monotonic() - started < 8


@pytest.fixture
def stop():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    stop = StopSignals()
    stop.listen()
    yield stop
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_only_the_first_signal_interrupts(stop):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)


_INTERRUPTED = """
import threading, time
import eigenformer.cli as cli

def main():
    threading.Thread(target=time.sleep, args=(60,)).start()
    try:
        exec("raise KeyboardInterrupt")  # as in the middle of an import
    except KeyboardInterrupt:
        print("stopped")
        return 130

cli.main = main
cli.program()
"""


def test_the_code_of_a_stop_does_not_depend_on_what_was_interrupted():
    command = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "stopped\n", "")
