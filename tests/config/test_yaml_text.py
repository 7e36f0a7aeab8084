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
