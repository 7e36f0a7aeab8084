"""Tries many mutated inputs and reports every traceback, hang, crash and large use of memory.

    python -m tests.fuzz --count 100000 --minutes 60 --seed 0
    python -m tests.fuzz --seed 0 --only 4711          one input again, with its traceback
    python -m tests.fuzz --subject partial_files       one subject instead of all of them

Each input depends on the seed and its number alone, so that any of them can be tried again.
"""

from __future__ import annotations

import argparse
import collections
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.fuzz import seeds

_HANG = 10.0
"""Seconds of processor time after which an input hangs; other work on the machine counts not."""

_PATIENCE = 300.0
"""Seconds of any kind after which an input hangs."""


def main() -> int:
    """Runs the attack; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=100_000, help="inputs (default: 100,000)")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this time")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", type=int, help="try one input, and show its traceback")
    parser.add_argument("--subject", default="", help="a function of tests/fuzz/subjects.py")
    parser.add_argument("--folder", type=Path, help="where inputs and findings are written")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="eigenformer-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    seeds.prepare(folder)
    if arguments.only is not None:
        return _again(arguments.seed, arguments.only, folder, arguments.subject)
    print(f"seed {arguments.seed}, findings in {folder}", flush=True)
    return _attack(arguments, folder)


def _again(seed: int, number: int, folder: Path, subject: str) -> int:
    from tests.fuzz.desk import Desk
    from tests.fuzz.worker import attack

    name, problem = attack(seed, number, Desk(folder), subject)
    print(f"{number} {name}: {problem or 'clean'}")
    return int(bool(problem))


def _attack(arguments: argparse.Namespace, folder: Path) -> int:
    end = time.monotonic() + 60 * arguments.minutes
    done: collections.Counter[str] = collections.Counter()
    found: dict[int, str] = {}
    number = arguments.first
    last = arguments.first + arguments.count
    while number < last and time.monotonic() < end:
        number = _batch(arguments, number, last, folder, end, done, found)
        rate = f"{sum(done.values())} inputs, {len(found)} findings"
        print(f"{time.strftime('%H:%M:%S')} {rate}", flush=True)
    for name, count in sorted(done.items()):
        print(f"{count:>8} {name}")
    print(f"{sum(done.values())} inputs, seed {arguments.seed}: {len(found)} findings")
    for place, problem in sorted(found.items()):
        print(f"  {place}: {problem}")
    return int(bool(found))


def _batch(
    arguments: argparse.Namespace,
    first: int,
    last: int,
    folder: Path,
    end: float,
    done: collections.Counter[str],
    found: dict[int, str],
) -> int:
    """Tries inputs in a new process until it ends; returns the number of the next input."""
    last = min(last, first + 20_000)  # a new process now and then, so that leaks do not add up
    given = (arguments.seed, first, last, folder, arguments.subject)
    words = [sys.executable, "-m", "tests.fuzz.worker", *map(str, given)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True)
    reader.start()
    current, finished, begun = first, True, None
    since = time.monotonic()
    while True:
        try:
            words = lines.get(timeout=1.0).split()
        except queue.Empty:
            used = 0.0 if begun is None else _processor_seconds(process.pid) - begun
            waited = begun is not None and time.monotonic() - since > _PATIENCE
            if used > _HANG or waited:
                found[current] = f"hangs: {used:.0f} s of processor time"
                break
            continue
        since = time.monotonic()
        if not words:  # the process has ended
            if not finished:
                found[current] = f"ends the process with code {process.wait()}"
            break
        current, finished = int(words[0]), len(words) > 1
        begun = None if finished else _processor_seconds(process.pid)
        if finished:
            done[words[1]] += 1
            if words[2] == "bad":
                report = (folder / f"finding-{current}.txt").read_text().rstrip().splitlines()
                found[current] = f"{report[0]}: {report[-1]}"
                print(f"  {current}: {found[current]}", flush=True)
            if time.monotonic() > end:
                break
    if not finished:
        print(f"  {current}: {found.get(current, 'stopped')}", flush=True)
        done["unfinished"] += 1
    process.kill()
    process.wait()
    return current + 1


def _processor_seconds(process: int) -> float:
    """Returns the processor time of a process so far; 0 if it has ended."""
    try:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _forward(stream: object, lines: queue.Queue[str]) -> None:
    for line in stream:  # type: ignore[attr-defined]
        lines.put(line)
    lines.put("")


if __name__ == "__main__":
    sys.exit(main())
