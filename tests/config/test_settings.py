from __future__ import annotations

from eigenformer.config import merge


def test_sections_are_merged_and_another_kind_starts_anew():
    base = {"a": 1, "section": {"x": 1, "y": 2}, "encoder": {"kind": "linear", "bias": True}}
    assert merge(base, {"section": {"y": 3}})["section"] == {"x": 1, "y": 3}
    assert merge(base, {"encoder": {"bias": False}})["encoder"] == {"kind": "linear", "bias": False}
    assert merge(base, {"encoder": {"kind": "ones"}})["encoder"] == {"kind": "ones"}
    assert merge(base, {"encoder": None})["encoder"] is None
    assert base["section"] == {"x": 1, "y": 2}
