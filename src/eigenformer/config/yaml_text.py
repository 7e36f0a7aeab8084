"""Safe YAML with every common number format; duplicate names are an error."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import yaml

from eigenformer.config.json_text import MAX_NESTING, TOO_DEEP

MAX_LENGTH = 200_000
"""The maximum number of characters. A file of all settings has about two thousand."""

MAX_VALUES = 20_000
"""The maximum number of values, counting what an alias repeats each time it is repeated."""


def parse_yaml(text: str) -> Any:
    """Reads plain data from YAML. ``1e-4`` is a number, while YAML 1.1 reads it as a string."""
    node = _compose(text)
    if node is None:
        return None
    try:
        return _Loader("").construct_document(node)
    except (ValueError, OverflowError) as error:  # for example, a date in month 13
        raise yaml.YAMLError(str(error)) from None


def line_of(text: str, path: str) -> int | None:
    """Returns the line, counted from 1, that sets a dotted name such as ``model.layers``."""
    node, line = _compose(text), None
    for name in path.split("."):
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == name), None)
        if found is None:
            return line
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _compose(text: str) -> yaml.Node | None:
    """Returns the tree of a YAML text. Raises an error before one that is too large is built."""
    if len(text) > MAX_LENGTH:
        raise yaml.YAMLError(f"{len(text)} characters, at most {MAX_LENGTH} are read")
    depth = 0
    for event in yaml.parse(text, _Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_NESTING:
            raise yaml.YAMLError(TOO_DEEP)
    node = yaml.compose(text, _Loader)
    if node is not None and _count(node, {}) > MAX_VALUES:
        raise yaml.YAMLError(f"its aliases repeat more than {MAX_VALUES} values")
    return node


def _count(node: yaml.Node, counted: dict[int, int | None]) -> int:
    """Returns the number of values of a tree, with everything that its aliases repeat."""
    if id(node) in counted:
        count = counted[id(node)]
        if count is None:
            raise yaml.YAMLError("a value contains itself")
        return count
    counted[id(node)] = None
    parts = node.value if isinstance(node, yaml.CollectionNode) else ()
    pairs = isinstance(node, yaml.MappingNode)
    inner = (part for pair in parts for part in (pair if pairs else (pair,)))
    count = counted[id(node)] = 1 + sum(_count(part, counted) for part in inner)
    return count


class _Loader(yaml.SafeLoader):
    """A safe loader that reads one more number format and no additional types."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and names[key.value] > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"'{key.value}' appears twice", key.start_mark
                )
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
