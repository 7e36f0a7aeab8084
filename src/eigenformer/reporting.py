"""Terminal output: progress of long work, notices and tables. Silent when used as a library."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

_log = logging.getLogger("eigenformer")


def shown(value: float, digits: int = 4) -> str:
    """Returns a metric as text: with fixed digits, unless it is so small that none would be left.

    Targets of 1e-7, such as concentrations, would otherwise have an error of 0.0000.
    """
    return f"{value:.{digits}g}" if 0 < abs(value) < 1e-3 else f"{value:.{digits}f}"


class Step(Protocol):
    """One step of long work whose progress is reported."""

    def advance(self, amount: int) -> None:
        """Reports that ``amount`` more units are done."""


class Reporter:
    """Reports only notices, through ``logging``."""

    def notice(self, message: str) -> None:
        """Reports a problem that was found and handled, for example a damaged cache."""
        _log.warning(message)

    def say(self, message: str) -> None:
        """Reports an ordinary message."""

    @contextmanager
    def step(self, title: str, total: int, unit: str = "graphs") -> Iterator[Step]:
        """Opens a step of work with ``total`` units."""
        yield _Quiet()


class SilentReporter(Reporter):
    """Reports nothing at all. For all processes except the first, if there are several."""

    def notice(self, message: str) -> None:
        pass


class TerminalReporter(Reporter):
    """Prints lines, and progress bars if the output is a terminal."""

    def notice(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def say(self, message: str) -> None:
        print(message, flush=True)

    @contextmanager
    def step(self, title: str, total: int, unit: str = "graphs") -> Iterator[Step]:
        from tqdm import tqdm

        # disable=None: no bar if the output is not a terminal.
        look = {"desc": title, "unit": f" {unit}", "unit_scale": True, "disable": None}
        with tqdm(total=total, **look) as bar:
            yield _Bar(bar)


def print_columns(rows: Sequence[Sequence[str]], right: Collection[int]) -> None:
    """Prints rows, the header first. The columns in ``right`` are right-aligned."""
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
