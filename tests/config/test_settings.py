from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from eigenformer.config import ConfigError, Settings, merge


def test_sections_are_merged_and_another_kind_starts_anew():
    base = {"a": 1, "section": {"x": 1, "y": 2}, "encoder": {"kind": "linear", "bias": True}}
    assert merge(base, {"section": {"y": 3}})["section"] == {"x": 1, "y": 3}
    assert merge(base, {"encoder": {"bias": False}})["encoder"] == {"kind": "linear", "bias": False}
    assert merge(base, {"encoder": {"kind": "ones"}})["encoder"] == {"kind": "ones"}
    assert merge(base, {"encoder": None})["encoder"] is None
    assert base["section"] == {"x": 1, "y": 2}


def test_a_setting_of_another_member_of_a_union_names_its_kind():
    with pytest.raises(ConfigError, match="model.heads: a setting of kind a or c, but model.kind"):
        _Choice.from_dict({"model": {"kind": "b", "heads": 3}})
    with pytest.raises(ConfigError, match="model.heads: a setting of kind a or c, but model.kind"):
        _Choice.check_part({"model": {"kind": "b", "heads": 3}})
    with pytest.raises(ConfigError, match="model.widt: unknown; the nearest is 'width'"):
        _Choice.from_dict({"model": {"kind": "b", "widt": 3}})


@dataclass(frozen=True)
class _A(Settings):
    heads: int = 1
    kind: Literal["a", "c"] = "a"


@dataclass(frozen=True)
class _B(Settings):
    width: int = 1
    kind: Literal["b"] = "b"


@dataclass(frozen=True)
class _Choice(Settings):
    model: _A | _B = _A()
