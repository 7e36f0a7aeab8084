"""The former name of :mod:`eigenformer.targets`."""

from __future__ import annotations

from typing import Any

from eigenformer.targets import LOWER_IS_BETTER, Target, make_target

__all__ = ["LOWER_IS_BETTER", "Outputs"]


class Outputs(Target):
    """A target, told by its ``kind``."""

    def __new__(  # type: ignore[misc]
        cls,
        level: Any = "graph",
        kind: str = "regression",
        num_outputs: int = 1,
        *rest: Any,
        **more: Any,
    ) -> Target:
        names = {"names": rest[0]} if rest else {}
        return make_target(kind, level=level, num_outputs=num_outputs, **names, **more)
