"""Safe YAML with every common number format; duplicate names are an error."""

from __future__ import annotations

import re
from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    """Reads plain data from YAML. ``1e-4`` is a number, while YAML 1.1 reads it as a string."""
    return yaml.load(text, _Loader)


def line_of(text: str, path: str) -> int | None:
    """Returns the line, counted from 1, that sets a dotted name such as ``model.layers``."""
    node, line = yaml.compose(text, _Loader), None
    for name in path.split("."):
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == name), None)
        if found is None:
            return line
        line, node = found[0].start_mark.line + 1, found[1]
    return line


class _Loader(yaml.SafeLoader):
    """A safe loader that reads one more number format and no additional types."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if names.count(key.value) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"'{key.value}' appears twice", key.start_mark
                )
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
