"""What the eigenvectors of one graph look like, in order of frequency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigenformer.analysis.drawing import Drawing
from eigenformer.analysis.graph_view import GraphView
from eigenformer.data.errors import DataError


@dataclass(frozen=True, eq=False)
class Substructures:
    """Eigenvectors of one graph.

    Args:
        name: Of the graph.
        drawing: Its picture.
        places: ``[shown]``, which eigenvectors, counted from 1 in order of frequency.
        eigenvalues: ``[shown]``.
        multiplicities: ``[shown]``, how often each eigenvalue occurs.
        eigenvectors: ``[n, shown]``, each with its largest entry positive.
    """

    name: str
    drawing: Drawing
    places: np.ndarray
    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    eigenvectors: np.ndarray


def substructures(subject: GraphView, most: int = 30) -> Substructures:
    """The eigenvectors of a graph; of a large one, the lowest and the highest frequencies.

    Args:
        subject: The graph.
        most: How many to show.
    """
    if most < 1:
        raise DataError(f"most: must be at least 1, got {most}")
    values, vectors = subject.eigenvalues, _canonical(subject.eigenvalues, subject.eigenvectors)
    count = len(values)
    places = np.arange(count)
    if count > most:
        places = np.concatenate([places[: most - most // 2], places[count - most // 2 :]])
    multiplicities = (values[:, None] == values).sum(1)
    return Substructures(
        name=subject.name,
        drawing=subject.drawing,
        places=places + 1,
        eigenvalues=values[places],
        multiplicities=multiplicities[places],
        eigenvectors=vectors[:, places],
    )


def _canonical(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The same eigenspaces in a basis that depends on the graph alone.

    LAPACK's choice within a repeated eigenvalue's space is arbitrary. Columns of the projection
    onto it, made orthogonal one after the other, the longest first, are not; and they are more
    local. Rounding keeps ties between nodes that are alike.
    """
    from scipy.linalg import qr

    result = np.empty_like(vectors, dtype=np.float64)
    for value in np.unique(values):
        space = np.flatnonzero(values == value)
        basis = vectors[:, space].astype(np.float64)
        if len(space) > 1:
            orthogonal, _, _ = qr((basis @ basis.T).round(5), mode="economic", pivoting=True)
            result[:, space] = orthogonal[:, : len(space)]
        else:
            result[:, space] = basis
    # Of entries as good as equal the first one decides about the sign.
    first = (np.abs(result) > np.abs(result).max(0) - 1e-4).argmax(0)
    return result * np.sign(result[first, np.arange(len(first))])
