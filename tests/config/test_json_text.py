from __future__ import annotations

import pytest

from eigenformer.config.json_text import MAX_NESTING, parse_json


def test_plain_values():
    assert parse_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert parse_json(b"[]") == []


@pytest.mark.parametrize("depth", [MAX_NESTING + 2, 500, 100_000])
def test_deep_values(depth):
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse_json("[" * depth + "]" * depth)


def test_the_deepest_that_is_read():
    parse_json("[" * MAX_NESTING + "]" * MAX_NESTING)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1.5e400]"])
def test_numbers_that_are_not_finite(text):
    with pytest.raises(ValueError, match="is not a number in JSON|is beyond the largest number"):
        parse_json(text)
