"""Disturbs a tiny training and prediction at random moments, and compares what is left."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.torture.bench import Bench, differences, fill, fingerprint
from tests.torture.children import Clock, Ended, fork, run, struck_in_time

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_MOST_STRIKES = 6  # for one run, before it is left alone
_STOP_SECONDS = 10.0
_NEW_SECONDS = 12.0  # what a new process takes, with its imports
_SPACE = "32m"
_PREDICTING = 0.2  # the share of predictions; all others are trainings
_PIECE = 16  # rows of a table that are predicted at once


class Torture:
    """Strikes at random moments, and remembers what went wrong.

    Args:
        folder: Where everything happens. Benches on which something went wrong are kept.
        seed: The seed of all moments.
        minutes: When to stop, whatever is left to do.
    """

    def __init__(self, folder: Path, seed: int, minutes: float = 60.0) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.end = time.monotonic() + 60 * minutes
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self.seconds = 0.0
        self._number = 0
        _import_everything()
        self.reference = Bench.make(folder / "table").other(folder / "undisturbed")
        started = time.monotonic()
        ended = self.reference.finish(self.reference.command(), Clock())
        assert ended.code == 0, ended.output
        self.duration, self.operations = time.monotonic() - started, self.reference.operations()
        self.wanted, self.epochs = fingerprint(self.reference), self.reference.epochs()
        self.predictions = self._bench("predictions")
        ended = self.predictions.finish(self.predictions.prediction(self.reference.run), Clock())
        assert ended.code == 0, ended.output
        self.wanted_predictions = fingerprint(self.predictions)

    def kill(self, count: int) -> None:
        """Kills commands until that many were killed, and finishes what they left."""
        while self.done["kills"] < count and self._has_time():
            predicting = self.random.random() < _PREDICTING
            bench = self._bench("killed")
            for _ in range(_MOST_STRIKES):
                command = self._command(bench, predicting)
                number = self.random.choice(SIGNALS)
                ended, how = self._strike(command, bench.path / "log", number, predicting)
                if not self._check_stop(ended, number, how, bench):
                    break
                phase = "predicting" if predicting else bench.phase(self.epochs)
                self.done.update(["kills", f"{number.name}, {phase}", how])
                if self.done["kills"] >= count or self._is_finished(bench):
                    break
            self._finish(bench, predicting)

    def fill(self, count: int) -> None:
        """Fills the disk at random moments, makes room again, and resumes."""
        with _small_disk(self.folder / "disk") as disk:
            while self.done["full disks"] < count and self._has_time():
                bench = self.reference.other(disk / "bench")
                predicting = self.random.random() < _PREDICTING
                moment = self.random.randint(1, self._operations(predicting))
                log = self.folder / "log"  # on another disk
                command = self._command(bench, predicting)
                ended = run(command, log, Clock(moment, lambda: fill(disk)))
                epochs = len(re.findall(r"^epoch ", ended.output, re.M))
                (disk / "filler").unlink(missing_ok=True)
                if ended.code not in (0, 2) or "Traceback" in ended.output:
                    self._fail(f"a full disk at {moment}: {ended}", bench)
                kept = bench.epochs()
                if kept < epochs:
                    self._fail(f"a full disk at {moment}: {kept} of {epochs} epochs kept", bench)
                self.done.update(["full disks", *(["full, predicting"] if predicting else [])])
                self._finish(bench, predicting)

    def compete(self, count: int) -> None:
        """Stalls a training at random moments while another one resumes it."""
        while self.done["rivals"] < count and self._has_time():
            bench = self._bench("rivals")
            shutil.copytree(self.reference.path / "cache", bench.path / "cache")
            first = fork(bench.command(), bench.path / "log")
            time.sleep(self.random.uniform(0.0, self.duration))
            os.kill(first, signal.SIGSTOP)
            second = run(bench.command(), bench.path / "log2")
            os.kill(first, signal.SIGCONT)
            code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
            output = (bench.path / "log").read_text()
            refused = "in use by process" in second.output
            if refused:
                self.done["rivals refused"] += 1
            # One of them trains. The other is refused, comes too late, or finds nothing to do.
            both = (code, second.code)
            if both not in ((0, 2), (2, 0), (0, 0)) or "Traceback" in output + second.output:
                self._fail(f"two at once: {both}, {output}, {second.output}", bench)
            if both == (0, 0) and "already finished" not in output + second.output:
                self._fail(f"both trained: {output}, {second.output}", bench)
            (bench.path / "log2").unlink(missing_ok=True)
            self.done["rivals"] += 1
            self._finish(bench, False)

    def _bench(self, name: str) -> Bench:
        self._number += 1
        return self.reference.other(self.folder / f"{name}-{self._number}")

    def _command(self, bench: Bench, predicting: bool) -> list[str]:
        return bench.prediction(self.reference.run) if predicting else bench.command()

    def _strike(
        self, command: list[str], log: Path, number: signal.Signals, predicting: bool
    ) -> tuple[Ended, str]:
        chance = self.random.random()
        if chance < 0.05 and not predicting:  # its pieces are larger there
            delay = self.random.uniform(0.0, _NEW_SECONDS)
            return struck_in_time(command, log, number, delay, new=True), "new processes"
        if chance < 0.5:
            longest = 0.5 if predicting else self.duration
            delay = self.random.uniform(0.0, longest)
            return struck_in_time(command, log, number, delay), "at a time"
        moment = self.random.randint(1, self._operations(predicting))
        log.unlink(missing_ok=True)
        strike: Callable[[], None] = lambda: os.kill(os.getpid(), number)  # noqa: E731
        return run(command, log, Clock(moment, strike)), "at an operation on files"

    def _operations(self, predicting: bool) -> int:
        return self.predictions.operations() if predicting else self.operations

    def _check_stop(self, ended: Ended, number: signal.Signals, how: str, bench: Bench) -> bool:
        """Whether a command was stopped; a failure if it was not stopped as it should be."""
        self.seconds = max(self.seconds, ended.seconds)
        if ended.seconds > _STOP_SECONDS:
            self._fail(f"{number.name} took {ended.seconds:.1f} s", bench)
        if ended.code == 0:
            return False
        # A new process may be struck before the first line of the package.
        early = how == "new processes" and "eigenformer" not in ended.output
        if ended.code == -number and (number == signal.SIGKILL or early):
            return True
        silent = not ended.output and ended.code == 130  # before the command began
        if ended.code != 130 or "Traceback" in ended.output:
            self._fail(f"{number.name} {how}: {ended}", bench)
        elif not silent and "stopped" not in ended.output:
            self._fail(f"{number.name} {how}: no sentence in {ended}", bench)
        return True

    def _is_finished(self, bench: Bench) -> bool:
        summary = bench.run / "summary.json"
        return summary.exists() and '"state": "finished"' in summary.read_text()

    def _finish(self, bench: Bench, predicting: bool) -> None:
        (bench.path / "log").unlink(missing_ok=True)
        ended = bench.finish(self._command(bench, predicting))
        if ended.code != 0:
            self._fail(f"cannot be finished: {ended}", bench)
            return
        found = fingerprint(bench)
        wrong = differences(found, self.wanted_predictions if predicting else self.wanted)
        if wrong:
            self._fail("not the same: " + "; ".join(wrong), bench)
        else:
            shutil.rmtree(bench.path)

    def _fail(self, reason: str, bench: Bench) -> None:
        self.failures.append(f"{bench.path}: {reason}")

    def _has_time(self) -> bool:
        return time.monotonic() < self.end


def _import_everything() -> None:
    import rdkit.Chem
    import torch

    import eigenformer.cli.predict
    import eigenformer.cli.train
    import eigenformer.training.loop
    import eigenformer.training.prediction
    import eigenformer.training.table_prediction

    eigenformer.training.table_prediction.CHUNK = _PIECE  # a small table is a long one
    del rdkit, eigenformer
    torch.set_num_threads(1)  # a forked process has no threads but its own


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A small file system in memory. Needs the right to mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SPACE}", "torture", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
