"""Runs a command, and prints its times and the largest memory of all its processes.

``python -m tests.training.measured COMMAND ...``
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import time

import psutil


def main(*command: str) -> int:
    start, child = time.time(), subprocess.Popen(command)
    root, most, seconds = psutil.Process(child.pid), 0, {}
    while child.poll() is None:
        total = 0
        with contextlib.suppress(psutil.Error):
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    seconds[process.pid] = times.user + times.system
                    total += process.memory_full_info().pss
        most = max(most, total)
        time.sleep(1)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of those that were waited for
    cpu = max(sum(seconds.values()), used.ru_utime + used.ru_stime)
    wall = time.time() - start
    print(f"wall {wall:.1f} s, processor {cpu:.1f} s, peak {most / 1e6:.0f} MB")
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
