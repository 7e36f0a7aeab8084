from __future__ import annotations

import pytest

from eigenformer.config.forms import FormError, check_form

FORM = {"name": str, "size?": (int, None), "rows": [{"line": int}], "any?": {str: float}}
GOOD = {"name": "a", "rows": [{"line": 1, "more": "x"}], "any": {"b": 1}}


def test_what_fits():
    check_form(GOOD, FORM)
    check_form({**GOOD, "size": None}, FORM)
    check_form(True, bool)
    check_form(None, object)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "name has an unexpected value, 3"),
        ({"size": "x"}, "size has an unexpected value"),
        ({"size": True}, "size has an unexpected value, True"),
        ({"rows": {}}, "rows has an unexpected value"),
        ({"rows": [{"line": 1}, {}]}, r"rows\[1\].line is missing"),
        ({"any": {"b": "x"}}, "any.b has an unexpected value"),
        ({"any": {1: 1.0}}, "any has an unexpected value"),
    ],
)
def test_what_does_not(changes, message):
    with pytest.raises(FormError, match=message):
        check_form({**GOOD, **changes}, FORM)


def test_a_long_value_is_not_shown_whole():
    with pytest.raises(FormError) as error:
        check_form("x" * 10_000, int)
    assert len(str(error.value)) < 200
