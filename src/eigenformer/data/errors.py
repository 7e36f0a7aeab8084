"""Errors in data: each problem is reported with its place and its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eigenformer.limits import LimitError


@dataclass(frozen=True)
class Problem:
    """One problem at one place in a file."""

    file: str
    reason: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.reason}"


class DataError(ValueError):
    """Raised for data that cannot be used; ``problems`` holds every place and reason."""

    def __init__(self, problems: str | Problem | Sequence[Problem]) -> None:
        if isinstance(problems, Problem):
            problems = [problems]
        self.problems: tuple[Problem, ...] = () if isinstance(problems, str) else tuple(problems)
        super().__init__(problems if isinstance(problems, str) else _summary(self.problems))


class DamagedError(DataError):
    """Raised for a file of ours that is truncated, altered, or not what its name says."""


class DownloadError(DataError):
    """Raised if a file cannot be downloaded; the message says which file to put where."""


@contextmanager
def placed(file: str | Path, line: int | None = None) -> Iterator[None]:
    """Adds the place to the error if a file exceeds a limit."""
    try:
        yield
    except LimitError as error:
        raise DataError(Problem(str(file), str(error), line)) from None


def _summary(problems: tuple[Problem, ...], shown: int = 20) -> str:
    lines = [str(problem) for problem in problems[:shown]]
    if len(problems) > shown:
        lines.append(f"... and {len(problems) - shown} more")
    return "\n".join(lines)
