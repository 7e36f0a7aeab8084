"""Error messages for unknown names, which suggest the nearest known name if one is similar."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_SHOWN, _MOST_COMPARED = 40, 2000
# Below this similarity, a name is not a misspelling of the other.
_SIMILAR = 0.5


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Returns the error message for an unknown ``name``. ``what`` is how the message calls it."""
    # Ignore case: 'Smiles' is nearer to 'SMILES' than to any other name.
    spelled = {known_name.lower(): known_name for known_name in known}
    # A table may have very many columns, and comparing takes time.
    compared = list(spelled)[:_MOST_COMPARED]
    near = difflib.get_close_matches(name.lower()[:100], compared, n=1, cutoff=_SIMILAR)
    if not spelled:
        return f"{what}: unknown"
    names = ", ".join(sorted(spelled.values())[:_MOST_SHOWN])
    if len(spelled) > _MOST_SHOWN:
        names += f", … {len(spelled)} in all"
    if not near:
        return f"{what}: unknown (known: {names})"
    return f"{what}: unknown; the nearest is '{spelled[near[0]]}' (known: {names})"
