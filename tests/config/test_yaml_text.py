from __future__ import annotations

import pytest
import yaml

from eigenformer.config import parse_yaml
from eigenformer.config.yaml_text import line_of


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "+1e-4", "0.0001"])
def test_numbers_in_yaml(text):
    assert parse_yaml(f"rate: {text}") == {"rate": 1e-4}
    assert parse_yaml("name: 1e-4x") == {"name": "1e-4x"}


def test_a_name_that_is_there_twice():
    with pytest.raises(yaml.YAMLError, match="'layers' appears twice"):
        parse_yaml("model:\n  layers: 1\n  layers: 2\n")


def test_line_of_a_dotted_name():
    text = "a: 1\nb:\n  c: 2\n\n  d: {e: 3}\n"
    assert [line_of(text, path) for path in ("a", "b", "b.c", "b.d.e", "b.x", "x")] == [
        *(1, 2, 3, 5),
        *(2, None),
    ]


def test_a_few_aliases_and_merges_are_fine():
    text = "a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\n"
    assert parse_yaml(text) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}}


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"])
def test_aliases_that_multiply(form):
    first = "a0: &a0 {x: 1}\n"
    lines = [f"a{n}: &a{n} {form.format(', '.join([f'*a{n - 1}'] * 9))}\n" for n in range(1, 30)]
    with pytest.raises(yaml.YAMLError, match="aliases repeat more than 20000 values"):
        parse_yaml(first + "".join(lines))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "contains itself"),
        ("[" * 50_000, "nested more than 100 deep"),
        ("a: 1\n" * 50_000, "250000 characters, at most 200000"),
        ("a: 2001-13-45", "month"),
    ],
)
def test_texts_that_are_refused(text, message):
    with pytest.raises(yaml.YAMLError, match=message):
        parse_yaml(text)
