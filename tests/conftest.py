"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

# Before PyTorch is loaded: with a process per core, more threads would stand in each other's way.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture(scope="session")
def raw_dir() -> Path:
    """The real benchmark data."""
    folder = os.environ.get("EIGENFORMER_RAW_DIR")
    if folder is None:
        pytest.skip("needs the real benchmark data: set EIGENFORMER_RAW_DIR")
    return Path(folder)
