"""What is told on a terminal: how far long work is, notices, and tables. Silent for a library."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

_log = logging.getLogger("eigenformer")


class Step(Protocol):
    """One stretch of work that is being watched."""

    def advance(self, amount: int) -> None:
        """So much more is done."""


class Reporter:
    """Reports nothing but what needs attention, through ``logging``."""

    def notice(self, message: str) -> None:
        """Something was found and dealt with, for example a damaged cache."""
        _log.warning(message)

    def say(self, message: str) -> None:
        """Something ordinary."""

    @contextmanager
    def step(self, title: str, total: int, unit: str = "graphs") -> Iterator[Step]:
        """A stretch of work of ``total`` units."""
        yield _Quiet()


class SilentReporter(Reporter):
    """Reports nothing at all: for every process but the first of several."""

    def notice(self, message: str) -> None:
        pass


class TerminalReporter(Reporter):
    """Prints lines, and progress bars where there is a terminal to draw them on."""

    def notice(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def say(self, message: str) -> None:
        print(message, flush=True)

    @contextmanager
    def step(self, title: str, total: int, unit: str = "graphs") -> Iterator[Step]:
        from tqdm import tqdm

        # disable=None: no bar where nobody watches.
        look = {"desc": title, "unit": f" {unit}", "unit_scale": True, "disable": None}
        with tqdm(total=total, **look) as bar:
            yield _Bar(bar)


def print_columns(rows: Sequence[Sequence[str]], right: Collection[int]) -> None:
    """Prints rows, the header first, with the columns ``right`` set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


class _Quiet:
    def advance(self, amount: int) -> None:
        pass


class _Bar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, amount: int) -> None:
        self._bar.update(amount)
