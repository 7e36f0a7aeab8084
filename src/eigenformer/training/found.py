"""What a model finds for each graph, or the reason why it finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from eigenformer.data.archive import GraphArchive

Compute = Callable[[GraphArchive], tuple[Tensor, Tensor | None]]
"""Returns the values for the graphs of an archive, and their spread if there is one."""


@dataclass(frozen=True, eq=False)
class Found:
    """What was found for one graph, or the reason why there is nothing.

    Args:
        values: Predictions in units, or embeddings, ``[rows, *]``.
        spread: The spread of an ensemble, of the same shape; None for any other model.
        reason: Why there are no values; empty if there are.
        novelty: How unlike the training set the graph is; NaN if it was not asked for.
    """

    values: np.ndarray
    spread: np.ndarray | None = None
    reason: str = ""
    novelty: float = float("nan")

    @classmethod
    def none(cls, reason: str, rows: int = 0) -> Found:
        """Returns that there is nothing, for this many rows if their number is known."""
        return cls(np.zeros((rows, 0)), reason=reason)


def find_each(
    compute: Compute, archive: GraphArchive, sizes: Sequence[int], what: str
) -> list[Found]:
    """Returns what is computed for each graph, or the reason why there is nothing.

    Args:
        compute: Computes the values of an archive. If it fails, each graph is processed alone.
        archive: The graphs.
        sizes: The number of rows of each graph.
        what: What is computed, for the reasons.
    """
    try:
        values, spread = compute(archive)
    except (ValueError, RuntimeError, MemoryError):  # RuntimeError: PyTorch's memory is exhausted
        alone = (archive.subset([graph]) for graph in range(len(archive)))
        return [_find_one(compute, *pair, what) for pair in zip(alone, sizes, strict=True)]
    parts = [part.numpy() for part in values.split(list(sizes))]
    if spread is None:
        return [_checked(part, None, what) for part in parts]
    spreads = [part.numpy() for part in spread.split(list(sizes))]
    return [_checked(part, own, what) for part, own in zip(parts, spreads, strict=True)]


def _find_one(compute: Compute, archive: GraphArchive, rows: int, what: str) -> Found:
    try:
        values, spread = compute(archive)
    except (ValueError, RuntimeError, MemoryError) as error:
        return Found.none(_reason(error), rows)
    return _checked(values.numpy(), None if spread is None else spread.numpy(), what)


def _checked(values: np.ndarray, spread: np.ndarray | None, what: str) -> Found:
    finite = np.isfinite(values).all()
    return Found(values, spread, "" if finite else f"the {what} is not a finite number")


def _reason(error: Exception) -> str:
    """Returns why there is nothing for a graph that was processed alone, in one line."""
    if isinstance(error, MemoryError):
        return "too large for the memory of this machine"
    lines = str(error).removeprefix("graph 0 of the batch: ").removeprefix("graph 0: ").splitlines()
    return lines[0] if lines else type(error).__name__
