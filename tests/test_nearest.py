"""Suggestions for misspelt names."""

from __future__ import annotations

from eigenformer.nearest import unknown


def test_the_nearest_name_is_suggested_whatever_its_case() -> None:
    found = unknown("column 'Smile'", "Smile", ["ID", "SMILES"])
    assert found == "column 'Smile': unknown; the nearest is 'SMILES' (known: ID, SMILES)"


def test_a_name_unlike_all_others_gets_no_suggestion() -> None:
    """A far name beside it would look like an answer."""
    assert unknown("'xyz'", "xyz", ["depth", "width"]) == "'xyz': unknown (known: depth, width)"
    assert unknown("'xyz'", "xyz", []) == "'xyz': unknown"


def test_long_lists_are_cut() -> None:
    found = unknown("'c7x'", "c7x", [f"c{i}" for i in range(100)])
    assert found.startswith("'c7x': unknown; the nearest is 'c7' (known: c0, c1, c10, ")
    assert found.endswith(", … 100 in all)")
