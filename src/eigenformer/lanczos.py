"""The lowest frequencies of a large sparse graph, by Lanczos iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse import csgraph

# The limit for the null space: that of a graph with very many components does not fit in memory.
_MOST_ENTRIES = 1 << 29


def lowest_eigenpairs(
    row: np.ndarray, col: np.ndarray, num_nodes: int, k: int, gap: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the k lowest eigenvalues of the normalised Laplacian, ascending, with eigenvectors.

    Tries plain Lanczos first, which is fast if the low frequencies are well separated (random
    graphs). If it does not converge, tries shift-inverted Lanczos (paths, meshes, any graph with
    long distances). Returns more than k eigenpairs if the k-th eigenspace extends beyond k.
    Returns None if neither converges or the graph is dense; a dense decomposition then always
    works.

    Args:
        row: The row of every edge of the simple undirected graph, in both directions.
        col: The column of every edge, in the same order.
        num_nodes: The number of nodes.
        k: The number of eigenpairs.
        gap: Eigenvalues closer than this count as one.
    """
    if len(row) > 0.05 * num_nodes**2:
        return None
    adjacency = sp.csr_array((np.ones(len(row)), (row, col)), shape=(num_nodes, num_nodes))
    # `root` is D^½, with a 1 for an isolated node.
    normed, root = csgraph.laplacian(adjacency, normed=True, return_diag=True)
    laplacian: sp.csc_array = sp.csc_array(cast(sp.csr_array, normed))

    # The null space is known exactly: D^½ on each connected component (1 on an isolated node).
    count, component = csgraph.connected_components(adjacency, directed=False)
    if num_nodes * count > _MOST_ENTRIES:
        return None
    null = np.zeros((num_nodes, count))
    null[np.arange(num_nodes), component] = root
    null /= np.linalg.norm(null, axis=0)
    if count >= k:
        return np.zeros(count), null

    shift = 1e-6
    try:
        vectors = _sweep(lambda x: 2 * x - laplacian @ x, lambda m: 2 - m, null, k, gap, 80)
        if vectors is None:
            solve = spla.splu(laplacian + shift * sp.eye_array(num_nodes, format="csc")).solve
            vectors = _sweep(solve, lambda m: 1 / m - shift, null, k, gap, 400)
    except (RuntimeError, MemoryError, _LargeSpaceError):
        return None
    if vectors is None:
        return None
    # A final Rayleigh–Ritz step over all vectors sorts them and removes the remaining error.
    small = vectors.T @ (laplacian @ vectors)
    values, rotation = np.linalg.eigh((small + small.T) / 2)
    vectors = vectors @ rotation
    if np.abs(laplacian @ vectors - vectors * values).max() > 1e-9:
        return None
    return values, vectors


def _sweep(
    operator: Callable[[np.ndarray], np.ndarray],
    to_eigenvalue: Callable[[np.ndarray], np.ndarray],
    known: np.ndarray,
    k: int,
    gap: float,
    restarts: int,
) -> np.ndarray | None:
    """Returns vectors that span the eigenspaces of the ``k`` lowest eigenvalues.

    The ``known`` null space is included. Lanczos alone may miss copies of a repeated eigenvalue.
    The vectors found so far are therefore projected out and Lanczos runs again, until nothing at
    or below the k-th eigenvalue is left.
    """
    n = len(known)
    values, vectors = np.zeros(known.shape[1]), known
    start = np.random.default_rng(0)
    ask = max(k - known.shape[1], 1)
    while vectors.shape[1] + ask < min(n // 4, 4 * k + 512):

        def deflated(x: np.ndarray, basis: np.ndarray = vectors) -> np.ndarray:
            x = operator(x - basis @ (basis.T @ x))
            return x - basis @ (basis.T @ x)

        try:
            found, new = spla.eigsh(
                spla.LinearOperator((n, n), matvec=deflated, dtype=np.float64),
                k=ask,
                ncv=min(n, max(2 * ask + 1, 64)),
                which="LA",
                v0=start.normal(size=n),
                maxiter=restarts,
                tol=1e-12,
            )
        except spla.ArpackError:
            return None
        found = to_eigenvalue(found)
        cut = _end_of_space(np.sort(values), k, gap)
        keep = found < cut + gap
        if not keep.any():
            return vectors
        values = np.concatenate([values, found[keep]])
        vectors = np.linalg.qr(np.concatenate([vectors, new[:, keep]], axis=1))[0]
        ask = 2 if np.isinf(cut) else min(2 * ask, 64)
    raise _LargeSpaceError


class _LargeSpaceError(Exception):
    """Raised if the k-th eigenspace has too many dimensions for Lanczos."""


def _end_of_space(values: np.ndarray, k: int, gap: float) -> float:
    """Returns the last of the ascending ``values`` in the eigenspace of the k-th value."""
    if len(values) < k:
        return np.inf
    later = values[k - 1 :]
    apart = np.flatnonzero(np.diff(later) >= gap)
    return float(later[apart[0]] if len(apart) else later[-1])
