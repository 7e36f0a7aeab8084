"""Mean potentials: against loops over pairs, closed forms, and what the paper reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer.analysis.potentials import _graph_means, mean_potentials
from eigenformer.data import GraphArchive, prepare
from eigenformer.data.errors import DataError
from eigenformer.data.spectra import memory_spectra
from eigenformer.data.workspace import Workspace
from tests.data.samples import random_archive


def cycle(n: int) -> Data:
    nodes = torch.arange(n)
    return Data(edge_index=torch.stack([nodes, (nodes + 1) % n]), x=torch.zeros(n, 1))


def test_means_are_those_of_all_pairs() -> None:
    archive = random_archive(count=12)
    spectra = memory_spectra(archive)
    compared = 0
    for graph in range(len(archive)):
        n = int(archive.num_nodes[graph])
        adjacency = np.zeros((n, n), bool)
        i, j = archive[graph].edge_index.numpy()
        adjacency[i, j] = adjacency[j, i] = True
        apart = ~np.eye(n, dtype=bool)
        vectors = spectra.graph(graph, n)[1].astype(np.float64)
        potentials = vectors[:, None] * vectors[None]
        ((_, found),) = _graph_means(archive, spectra, np.array([graph]), 5)
        for kind, pairs in (("adjacent", adjacency & apart), ("others", ~adjacency & apart)):
            if pairs.any():
                assert found[kind][0] == pytest.approx(potentials[pairs].mean(0), abs=1e-6)
                compared += 1
            else:
                assert np.isnan(found[kind]).all()
    assert compared > 15


def test_on_a_cycle_it_is_a_straight_line() -> None:
    """On a graph where all degrees are equal, the mean of adjacent pairs is (1 − λ) / n."""
    found = mean_potentials("cycles", GraphArchive.from_data_list([cycle(60)] * 20))
    middle = slice(8, 73)  # at its ends the spectrum has no neighbours on one side
    line = (1 - found.eigenvalues[middle]) / 60
    assert found.adjacent.mean[middle] == pytest.approx(line, abs=3e-4)
    assert found.adjacent.error[middle] == pytest.approx(0, abs=1e-7)  # all graphs are alike
    assert found.adjacent.spread[middle].max() > 1e-5  # their eigenvalues are not


def test_the_basis_of_an_eigenspace_changes_nothing() -> None:
    archive = GraphArchive.from_data_list([cycle(n) for n in (8, 8, 9, 12)])
    spectra = memory_spectra(archive)
    rng = np.random.default_rng(0)
    turned = spectra.eigenvectors.copy()
    for graph, n in enumerate((8, 8, 9, 12)):
        start = int(spectra.vector_starts[graph])
        values, vectors = spectra.graph(graph, n)
        new = vectors.copy()
        for value in np.unique(values):
            space = np.flatnonzero(values == value)
            new[:, space] = vectors[:, space] @ np.linalg.qr(rng.normal(size=(len(space),) * 2))[0]
        turned[start : start + n * n] = new.ravel()
    assert np.abs(turned - spectra.eigenvectors).max() > 0.1
    first = mean_potentials("a", archive, spectra)
    second = mean_potentials("b", archive, replace(spectra, eigenvectors=turned))
    for one, other in ((first.adjacent, second.adjacent), (first.others, second.others)):
        assert one.mean == pytest.approx(other.mean, abs=1e-6, nan_ok=True)
        assert np.isfinite(one.mean).any()


def test_the_error_shrinks_with_the_graphs_and_the_spread_does_not() -> None:
    archive = random_archive(count=800, max_nodes=8)
    few, many = mean_potentials("few", archive, limit=50), mean_potentials("many", archive)
    assert (few.graphs, many.graphs) == (50, 800)
    error = np.nanmedian(few.adjacent.error / many.adjacent.error)
    spread = np.nanmedian(few.adjacent.spread / many.adjacent.spread)
    assert error == pytest.approx(4, rel=0.3)
    assert spread == pytest.approx(1, rel=0.3)
    apart = np.abs(few.adjacent.mean - many.adjacent.mean) / few.adjacent.error
    assert np.nanmedian(apart) < 1.5


def test_where_there_are_no_eigenvalues_there_is_no_curve() -> None:
    complete = Data(edge_index=torch.combinations(torch.arange(5)).T, x=torch.zeros(5, 1))
    found = mean_potentials("complete", GraphArchive.from_data_list([complete] * 12))
    # Eigenvalues 0 and 5/4 only; and there are no pairs that are not adjacent.
    known = found.eigenvalues[np.isfinite(found.adjacent.mean)]
    assert np.minimum(known, np.abs(known - 1.25)).max() < 3 * found.bandwidth
    assert len(known) > 10
    assert np.isnan(found.others.mean).all()


def test_mistakes() -> None:
    with pytest.raises(DataError, match="limit: must be at least 1"):
        mean_potentials("a", random_archive(), limit=0)


def test_zinc_shows_what_the_paper_reports(raw_dir: Path, tmp_path: Path) -> None:
    """Adjacent pairs positive at low frequencies and falling, others small and rising."""
    zinc = prepare("zinc", Workspace(raw_dir, tmp_path), with_spectra=False)
    found = mean_potentials("zinc", zinc.archive, limit=1000)
    adjacent, others = found.adjacent, found.others
    low, high = found.eigenvalues < 0.9, found.eigenvalues > 1.1
    assert (adjacent.mean[low] > 10 * adjacent.error[low]).all()
    assert (adjacent.mean[high] < -10 * adjacent.error[high]).all()
    assert (np.diff(adjacent.mean) < 1e-4).all()  # falling all the way, but for noise
    assert adjacent.mean[0] - adjacent.mean[-1] > 0.08
    # At λ = 0 every product is positive; right of it the others are small, and rise.
    rest = found.eigenvalues >= 0.2
    assert (np.diff(others.mean[rest]) > -1e-4).all()
    assert others.mean[rest][-1] - others.mean[rest][0] > 0.005
    assert np.abs(others.mean[rest]).max() < 0.2 * adjacent.mean[low].max()
    assert others.mean[found.eigenvalues == 0.2] < 0 < others.mean[-1]
