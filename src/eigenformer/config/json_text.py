"""JSON of plain values, nested no deeper than anything that is written here."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_NESTING = 100
"""The maximum nesting depth of JSON and YAML. Our own files have about ten levels."""

TOO_DEEP = f"values are nested more than {MAX_NESTING} deep"


def parse_json(text: str | bytes) -> Any:
    """Reads plain data from JSON. Raises a ``ValueError`` for any text that is not valid.

    NaN and infinite numbers, which Python would accept, are not valid JSON.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    level, depth = [value], 0
    while level := [inner for part in level for inner in _inside(part)]:
        depth += 1
        if depth > MAX_NESTING:
            raise ValueError(TOO_DEEP)
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits[:40]} is beyond the largest number")
    return value


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
