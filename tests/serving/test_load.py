"""Ten thousand requests: none fails, and memory stays where it is."""

from __future__ import annotations

import pytest

from eigenformer.model_folder import save_model
from tests.serving.samples import card


@pytest.mark.slow
def test_many_requests_leave_nothing_behind(tiny, tmp_path):
    pytest.importorskip("psutil")
    from tests.serving.load import load

    save_model(tmp_path / "tiny", tiny.model, card(tiny))
    found = load(tmp_path / "tiny", 10_000, 6, (1000, 10_000), tmp_path)
    assert found.errors == []
    assert found.memory[10_000] - found.memory[1000] < 20  # megabytes
