"""Public names that are loaded when first used: importing a package does not load PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__``.

    Args:
        package: Its name.
        homes: Its public names, each with the module that defines it.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names


def find(place: str) -> Any:
    """What ``module:name`` says, imported now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
