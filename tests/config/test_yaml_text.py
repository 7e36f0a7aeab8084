from __future__ import annotations

import pytest

from eigenformer.config import parse_yaml


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "+1e-4", "0.0001"])
def test_numbers_in_yaml(text):
    assert parse_yaml(f"rate: {text}") == {"rate": 1e-4}
    assert parse_yaml("name: 1e-4x") == {"name": "1e-4x"}
