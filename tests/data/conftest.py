"""Fixtures of the tests of the data."""

from __future__ import annotations

import pytest

from eigenformer.data import GraphArchive
from eigenformer.reporting import Reporter
from tests.data.samples import random_archive


class EpochLog(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.said: list[str] = []

    def notice(self, message: str) -> None:
        self.notices.append(message)

    def say(self, message: str) -> None:
        self.said.append(message)


@pytest.fixture
def recorder() -> EpochLog:
    return EpochLog()


@pytest.fixture
def saved(tmp_path) -> GraphArchive:
    return random_archive(seed=1, count=40).save(tmp_path / "graphs")
