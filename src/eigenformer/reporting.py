"""How long work tells what it is doing: silent for a library, a bar for a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
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
    def step(self, title: str, total: int, unit: str = "graphs", done: int = 0) -> Iterator[Step]:
        """A stretch of work of ``total`` units, of which some may be done already."""
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
    def step(self, title: str, total: int, unit: str = "graphs", done: int = 0) -> Iterator[Step]:
        from tqdm import tqdm

        # disable=None: no bar where nobody watches.
        look = {"desc": title, "unit": f" {unit}", "unit_scale": True, "disable": None}
        with tqdm(total=total, initial=done, **look) as bar:
            yield _Bar(bar)


class _Quiet:
    def advance(self, amount: int) -> None:
        pass


class _Bar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def advance(self, amount: int) -> None:
        self._bar.update(amount)
