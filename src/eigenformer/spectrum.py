"""Graph → eigenvalues and eigenvectors of its normalised Laplacian.

The eigendecomposition is computed once per graph, on the CPU, in float64, and is
never differentiated through.
"""

from __future__ import annotations

import copy
import os
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csgraph
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import remove_self_loops, to_undirected

from eigenformer.lanczos import lowest_eigenpairs

EIGENSPACE_GAP = 1e-6
"""Eigenvalues closer than this count as one eigenvalue with one eigenspace."""

NULL_SPACE = 1e-12
"""Eigenvalues below this are set to 0.

Rounding errors stay below it, and the smallest positive eigenvalues stay above it.
"""

MAX_DENSE_NODES = 16_384
"""The largest graph for a dense decomposition: beyond it, float64 needs more than ten gigabytes."""

# Below this, a dense decomposition takes well under a second, so a sparse one gains nothing.
_MIN_SPARSE_NODES = 512
# Entries of the matrices handed to one thread: enough to amortise the overhead, few enough to
# share the work.
_CHUNK_ENTRIES = 1 << 21


class Spectrum(NamedTuple):
    """The k lowest eigenpairs of a graph. ``eigenvectors[:, m]`` belongs to ``eigenvalues[m]``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def undirected_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Returns the simple undirected graph of ``edge_index``: A or Aᵀ, without self-loops.

    Every edge appears once in each direction, sorted by row.
    """
    return to_undirected(remove_self_loops(edge_index.long())[0], num_nodes=num_nodes)


def node_degrees(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Returns the number of distinct neighbours of each node in the undirected graph."""
    return undirected_edges(edge_index, num_nodes)[0].bincount(minlength=num_nodes)


def normalized_laplacian(edge_index: Tensor, num_nodes: int) -> Tensor:
    r"""Returns :math:`L = D^{-1/2} (D - A) D^{-1/2}`, dense, in float64, :math:`0^{-1/2} := 0`."""
    # Writing edges into the matrix avoids sorting them: five times as fast for molecules.
    row, col = edge_index.cpu().numpy()
    adjacency = np.zeros((num_nodes, num_nodes))
    adjacency[row, col] = adjacency[col, row] = 1.0
    np.fill_diagonal(adjacency, 0.0)
    return torch.from_numpy(csgraph.laplacian(adjacency, normed=True))


def eigenspaces(eigenvalues: Tensor, gap: float = EIGENSPACE_GAP) -> Tensor:
    """Numbers the eigenspaces of graphs: 0, 1, 1, 2, … for ascending ``eigenvalues`` ``[*, k]``.

    Neighbouring eigenvalues closer than ``gap`` share an eigenspace. The eigenvalue 0 is always
    separate, because its eigenspace is known exactly: one dimension per connected component.
    """
    starts = torch.zeros_like(eigenvalues, dtype=torch.long)
    leaves_zero = (eigenvalues[..., :-1] == 0) & (eigenvalues[..., 1:] > 0)
    starts[..., 1:] = (eigenvalues.diff() >= gap) | leaves_zero
    return starts.cumsum(-1)


def laplacian_spectrum(
    edge_index: Tensor, num_nodes: int, num_frequencies: int | None = None
) -> Spectrum:
    """Computes the spectrum of one graph in float64, with ascending eigenvalues.

    ``num_frequencies`` is the number of lowest frequencies to keep, rounded up to whole
    eigenspaces. Eigenvalues closer than :data:`EIGENSPACE_GAP` are set to their common mean. An
    eigenspace can then be recognised by equality, even after rounding to float32, and every
    function of the eigenvalues is constant on it.
    """
    edge_index = _checked(edge_index, num_nodes)
    if (
        num_frequencies is not None
        and num_nodes >= _MIN_SPARSE_NODES
        and 8 * num_frequencies <= num_nodes
    ):
        spectrum = _lowest_of_sparse(edge_index, num_nodes, num_frequencies)
        if spectrum is not None:
            return spectrum
    if num_nodes > MAX_DENSE_NODES:
        way_out = (
            "keep fewer frequencies, for example LaplacianSpectrum(num_frequencies=64)"
            if num_frequencies is None
            else f"num_frequencies={num_frequencies} does not avoid this, because the lowest "
            f"eigenspaces are too large or dense"
        )
        raise ValueError(
            f"a dense spectrum of {num_nodes} nodes needs about "
            f"{32 * num_nodes**2 / 2**30:.0f} GB (the limit is {MAX_DENSE_NODES} nodes): {way_out}"
        )
    values, vectors = torch.linalg.eigh(normalized_laplacian(edge_index, num_nodes))
    return _tidy(values, vectors, num_frequencies)


def laplacian_spectra(
    graphs: Sequence[tuple[Tensor, int]],
    num_frequencies: int | None = None,
    workers: int | None = None,
) -> list[Spectrum]:
    """Computes the spectra of many graphs, given as ``(edge_index, num_nodes)``, in their order.

    Graphs of the same size are decomposed together, and ``workers`` threads (default: one per
    core) share the work. The results equal those of :func:`laplacian_spectrum` for each graph.
    """
    by_size: dict[int, list[int]] = defaultdict(list)
    for position, (edge_index, num_nodes) in enumerate(graphs):
        try:
            _checked(edge_index, num_nodes)
        except ValueError as error:
            raise ValueError(f"graph {position}: {error}") from None
        by_size[num_nodes].append(position)
    jobs: list[list[int]] = []
    for num_nodes, positions in by_size.items():
        step = max(1, _CHUNK_ENTRIES // num_nodes**2)
        # Large graphs go one by one through laplacian_spectrum, which has the sparse solver.
        step = 1 if num_nodes >= _MIN_SPARSE_NODES else step
        jobs += [positions[i : i + step] for i in range(0, len(positions), step)]

    def solve(positions: list[int]) -> list[Spectrum]:
        if len(positions) == 1:
            return [laplacian_spectrum(*graphs[positions[0]], num_frequencies)]
        stack = torch.stack([normalized_laplacian(*graphs[p]) for p in positions])
        values, vectors = torch.linalg.eigh(stack)
        values, space = _merged(values)
        triples = zip(values, vectors, space, strict=True)
        return [_lowest(*triple, num_frequencies) for triple in triples]

    spectra: list[Spectrum | None] = [None] * len(graphs)
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        for positions, solved in zip(jobs, pool.map(solve, jobs), strict=True):
            for position, spectrum in zip(positions, solved, strict=True):
                spectra[position] = spectrum
    return [spectrum for spectrum in spectra if spectrum is not None]


@functional_transform("laplacian_spectrum")
class LaplacianSpectrum(BaseTransform):
    r"""Adds the spectrum of the normalised Laplacian to a graph
    (functional name: :obj:`laplacian_spectrum`).

    .. math::
        L = D^{-1/2} (D - A) D^{-1/2} = U \Lambda U^\top

    The Laplacian is that of the simple undirected graph of ``edge_index``: edges are symmetrised,
    parallel edges count once, self-loops are ignored, and an isolated node contributes an
    eigenvalue 0. The edges and edge features of the graph itself do not change.

    The transform adds

    - ``eigenvalues``: ``[k]``, ascending, in [0, 2];
    - ``eigenvectors``: ``[num_nodes * k]``, the matrix U flattened row by row, so that PyG's own
      ``Batch`` concatenates graphs of any size without padding;
    - ``num_frequencies``: k, only if ``num_frequencies`` was given.

    Args:
        num_frequencies: The number of lowest frequencies to keep, rounded up to whole eigenspaces
            so that the result never depends on the choice of a basis (default: all).
        dtype: The type that the float64 result is rounded to.
    """

    def __init__(
        self, num_frequencies: int | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        if num_frequencies is not None and num_frequencies < 1:
            raise ValueError(f"num_frequencies: must be at least 1, got {num_frequencies}")
        self.num_frequencies = num_frequencies
        self.dtype = dtype

    def forward(self, data: Data) -> Data:
        return self._attach(data, laplacian_spectrum(*_structure(data), self.num_frequencies))

    def many(self, graphs: Sequence[Data], workers: int | None = None) -> list[Data]:
        """Transforms many graphs: those of the same size together, by default on all cores."""
        spectra = laplacian_spectra(
            [_structure(data) for data in graphs], self.num_frequencies, workers
        )
        return [self._attach(data, s) for data, s in zip(graphs, spectra, strict=True)]

    def _attach(self, data: Data, spectrum: Spectrum) -> Data:
        device = None if data.edge_index is None else data.edge_index.device
        data = copy.copy(data)
        data.eigenvalues = spectrum.eigenvalues.to(device, self.dtype)
        data.eigenvectors = spectrum.eigenvectors.flatten().to(device, self.dtype)
        if self.num_frequencies is not None:
            data.num_frequencies = len(spectrum.eigenvalues)
        elif "num_frequencies" in data:  # from an earlier spectrum
            del data.num_frequencies
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_frequencies={self.num_frequencies}, dtype={self.dtype})"


def _structure(data: Data) -> tuple[Tensor, int]:
    if isinstance(data, Batch) or not isinstance(data, Data):
        raise TypeError(
            f"LaplacianSpectrum takes one torch_geometric.data.Data, not a {type(data).__name__}: "
            f"apply it to every graph, before batching"
        )
    if data.num_nodes is None:
        raise ValueError("the number of nodes is unknown: give the graph an 'x' or 'num_nodes'")
    return edges_of(data).cpu(), data.num_nodes


def edges_of(data: Data) -> Tensor:
    """Returns the ``edge_index`` of a graph as int64. It is empty if the graph has none."""
    edge_index = data.edge_index
    if edge_index is None:
        if data.get("adj_t") is not None:
            raise ValueError("'adj_t' is not supported: give the edges as 'edge_index'")
        return torch.empty(2, 0, dtype=torch.long)
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index: shape {tuple(edge_index.shape)}, expected [2, edges]")
    if edge_index.numel() and (edge_index.is_floating_point() or edge_index.is_complex()):
        raise ValueError(f"edge_index: {edge_index.dtype}, expected integers")
    return edge_index.long()


def _checked(edge_index: Tensor, num_nodes: int) -> Tensor:
    if num_nodes < 1:
        raise ValueError("a graph without nodes has no spectrum")
    edge_index = edge_index.cpu()
    if edge_index.numel() and not 0 <= edge_index.min() <= edge_index.max() < num_nodes:
        raise ValueError(
            f"edge_index refers to node {int(edge_index.max())} (smallest: "
            f"{int(edge_index.min())}), but the graph has nodes 0 to {num_nodes - 1}"
        )
    return edge_index


def _tidy(values: Tensor, vectors: Tensor, k: int | None) -> Spectrum:
    """Clamps to [0, 2], gives each eigenspace one eigenvalue, and keeps k, rounded up to spaces."""
    values, space = _merged(values[None])
    return _lowest(values[0], vectors, space[0], k)


def _merged(values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns eigenvalues ``[B, n]`` in [0, 2], one per eigenspace, and their eigenspaces."""
    values = values.clamp(0.0, 2.0)
    values = values.masked_fill(values < NULL_SPACE, 0.0)
    space = eigenspaces(values)
    # Number the eigenspaces of all graphs, to sum over each of them.
    last = space[:, -1:] + 1
    flat = (space + last.cumsum(0) - last).flatten()
    sizes = flat.bincount()
    sums = torch.zeros_like(sizes, dtype=values.dtype).index_add_(0, flat, values.flatten())
    return (sums / sizes)[flat].view_as(values).clamp(0.0, 2.0), space


def _lowest(values: Tensor, vectors: Tensor, space: Tensor, k: int | None) -> Spectrum:
    if k is not None and k < len(values):
        kept = int((space <= space[k - 1]).sum())
        values, vectors = values[:kept], vectors[:, :kept]
    return Spectrum(values.clone(), vectors.contiguous())  # no view of the other graphs


def _lowest_of_sparse(edge_index: Tensor, num_nodes: int, k: int) -> Spectrum | None:
    """Returns the k lowest eigenpairs of a large sparse graph, or None if only dense works."""
    row, col = undirected_edges(edge_index, num_nodes).numpy()
    found = lowest_eigenpairs(row, col, num_nodes, k, EIGENSPACE_GAP)
    if found is None:
        return None
    values, vectors = map(torch.from_numpy, found)
    return _tidy(values, vectors, k)
