"""Seeds as functions of the place in training, so that any step can be repeated."""

from __future__ import annotations

import hashlib


def derived_seed(seed: int, *place: int | str) -> int:
    """Returns a separate seed for each place, for example (epoch, step, process)."""
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
