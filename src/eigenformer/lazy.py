"""Public names that are loaded on first use, so that importing a package does not load PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: The name of the package.
        homes: The public names of the package, each with the module that defines it.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names


def find(place: str) -> Any:
    """Imports and returns the object that ``module:name`` refers to."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
