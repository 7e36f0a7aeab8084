"""What to say about a name that nobody knows: the nearest one that somebody does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The message for an unknown ``name``; ``what`` is what to call it."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    if not near:
        return f"{what}: unknown"
    return f"{what}: unknown; the nearest is '{near[0]}' (known: {', '.join(sorted(known))})"
