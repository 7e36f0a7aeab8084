"""YAML as people write it: safe, and with every common way to write a number."""

from __future__ import annotations

import re
from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    """Plain data from YAML, in which ``1e-4`` is a number; YAML 1.1 takes it for a word."""
    return yaml.load(text, _Loader)


class _Loader(yaml.SafeLoader):
    """Safe, too: it knows one more way to write a number, and no more types."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
