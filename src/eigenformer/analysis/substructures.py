"""The eigenvectors of one graph, in order of frequency."""

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
        name: The name of the graph.
        drawing: The drawing of the graph.
        places: ``[shown]``, the numbers of the eigenvectors, from 1 in order of frequency.
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


def substructures(view: GraphView, most: int = 30) -> Substructures:
    """Returns the eigenvectors of a graph; only the lowest and highest frequencies if it is large.

    Args:
        view: The graph.
        most: The largest number of eigenvectors to show.
    """
    if most < 1:
        raise DataError(f"most: must be at least 1, got {most}")
    values, vectors = view.eigenvalues, _canonical(view.eigenvalues, view.eigenvectors)
    count = len(values)
    places = np.arange(count)
    if count > most:
        places = np.concatenate([places[: most - most // 2], places[count - most // 2 :]])
    multiplicities = (values[:, None] == values).sum(1)
    return Substructures(
        name=view.name,
        drawing=view.drawing,
        places=places + 1,
        eigenvalues=values[places],
        multiplicities=multiplicities[places],
        eigenvectors=vectors[:, places],
    )


def _canonical(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Returns the same eigenspaces in a basis that depends only on the graph.

    LAPACK's basis for the eigenspace of a repeated eigenvalue is arbitrary. This basis is not: it
    consists of columns of the projection onto the eigenspace, made orthogonal one after the other,
    the longest first. It is also more local. Rounding keeps ties between equivalent nodes.
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
    # Among the nearly largest entries, the first one determines the sign.
    first = (np.abs(result) > np.abs(result).max(0) - 1e-4).argmax(0)
    return result * np.sign(result[first, np.arange(len(first))])
