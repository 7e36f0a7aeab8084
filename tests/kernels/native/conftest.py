"""Skips where the library was not compiled; undoes what a test set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from eigenformer.kernels.native import library, load


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    if load()[0] is None:
        pytest.skip(load()[1])
    threads, instructions = torch.get_num_threads(), library().instructions
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    library().use_instructions(instructions)
