"""What a command tells: lines, and bars where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from eigenformer.data.progress import Reporter, Step, TerminalReporter


class SilentReporter(Reporter):
    """For all processes but the first, which says it already."""

    def notice(self, message: str) -> None:
        pass


class LineReporter(TerminalReporter):
    """Lines on standard output; bars only on a terminal."""

    def say(self, message: str) -> None:
        print(message, flush=True)

    def notice(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    @contextmanager
    def step(self, title: str, total: int, unit: str = "graphs", done: int = 0) -> Iterator[Step]:
        maker = TerminalReporter() if sys.stderr.isatty() else Reporter()
        with maker.step(title, total, unit, done) as step:
            yield step
