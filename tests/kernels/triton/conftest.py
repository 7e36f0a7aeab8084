from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter runs programs one after the other: sums over edges have a few parts."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        monkeypatch.setattr("eigenformer.kernels.triton.launch._PROGRAMS", 8)
