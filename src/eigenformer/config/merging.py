"""One set of plain settings over another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``changes``, section by section; another ``kind`` starts a section anew."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if (
            isinstance(value, Mapping)
            and isinstance(old, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            result[key] = merge(old, value)
        else:
            result[key] = value
    return result
