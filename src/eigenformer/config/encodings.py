"""Settings of encodings: what is computed of a graph's structure once, for networks that ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eigenformer.config.settings import Settings, require_positive


@dataclass(frozen=True)
class RandomWalkSpec(Settings):
    """Random-walk encoding (RWSE): how likely a random walk is back after 1, 2, … steps.

    Args:
        steps: Length of the longest walk.
        width: Width of the encoded probabilities, a part of ``hidden_dim``.
    """

    steps: int = 20
    width: int = 28
    kind: Literal["rwse"] = "rwse"

    def check(self) -> None:
        require_positive(self, "steps", "width")


@dataclass(frozen=True)
class LaplacianSpec(Settings):
    """Laplacian encoding (LapPE): the lowest eigenvectors after the first, with random signs in
    training.

    Args:
        vectors: Number of eigenvectors.
        width: Width of the encoded eigenvectors, a part of ``hidden_dim``.
    """

    vectors: int = 8
    width: int = 16
    kind: Literal["lappe"] = "lappe"

    def check(self) -> None:
        require_positive(self, "vectors", "width")


EncodingSpec = RandomWalkSpec | LaplacianSpec
