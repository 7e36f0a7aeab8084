"""The form of a file of plain values, checked at the door through which it comes."""

from __future__ import annotations

from typing import Any

Form = Any
"""A type; a tuple of alternatives; ``[form]`` for a list; ``{str: form}`` for a mapping of any
names; or ``{"name": form}`` for a mapping with these names, which may be missing after ``?``.
None is the form of None, and ``object`` of anything."""


class FormError(ValueError):
    """Raised for a value of another form than expected; the message says where it is."""


def check_form(value: Any, form: Form, place: str = "") -> None:
    """Raises a :class:`FormError` if a plain value does not have the expected form."""
    if isinstance(form, tuple):
        if not any(_fits(value, part) for part in form):
            raise FormError(_expected(place, value))
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise FormError(_expected(place, value))
        for index, part in enumerate(value):
            check_form(part, form[0], f"{place}[{index}]")
    elif isinstance(form, dict):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise FormError(_expected(place, value))
        if str in form:
            for key, part in value.items():
                check_form(part, form[str], _join(place, key))
            return
        for key, inner in form.items():
            name = key.removesuffix("?")
            if name in value:
                check_form(value[name], inner, _join(place, name))
            elif name == key:
                raise FormError(f"{_join(place, name)} is missing")
    elif not _fits(value, form):
        raise FormError(_expected(place, value))


def _fits(value: Any, form: Form) -> bool:
    if form is None:
        return value is None
    if isinstance(form, dict | list):
        try:
            check_form(value, form)
        except FormError:
            return False
        return True
    if isinstance(value, bool):  # True is no number here
        return form in (bool, object)
    return isinstance(value, form) or (form is float and isinstance(value, int))


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _expected(place: str, value: Any) -> str:
    shown = repr(value)
    return f"{place or 'the content'} has an unexpected value, {shown[:60]}"
