"""Mistakes in settings are found before any work."""

from __future__ import annotations

from typing import Any

import pytest

from eigenformer.config import ConfigError
from eigenformer.training.planning import plan


@pytest.mark.parametrize("wanted", [{}, {"data": {}}, {"data": {"kind": "own"}}])
def test_settings_without_data(wanted: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="dataset: missing, and it has no default"):
        plan(wanted)
