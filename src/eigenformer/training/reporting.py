"""What a command tells: lines, and bars where somebody watches."""

from __future__ import annotations

import sys

from eigenformer.data.progress import Reporter, TerminalReporter


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
