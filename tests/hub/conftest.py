"""Models are shared from the same small run as training makes, with a hub of our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub.server import Hub
from tests.training.conftest import _one_thread, cache_dir, run, table  # noqa: F401


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A server that answers as the Hugging Face hub does."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_TOKEN", "hf_for_tests_only")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Hub() as server:
        yield server
