from __future__ import annotations

import numpy as np
import pytest

from eigenformer.analysis.graph_view import GraphView, find_graph
from eigenformer.analysis.substructures import substructures
from eigenformer.data.errors import DataError
from eigenformer.spectrum import normalized_laplacian

pytest.importorskip("rdkit")


def test_they_are_orthonormal_eigenvectors() -> None:
    view = find_graph("CC(=O)Oc1ccccc1C(=O)O")
    found = substructures(view)
    vectors = found.eigenvectors
    assert vectors.T @ vectors == pytest.approx(np.eye(13), abs=1e-4)
    laplacian = normalized_laplacian(view.data.edge_index, 13).numpy()
    assert laplacian @ vectors == pytest.approx(vectors * found.eigenvalues, abs=1e-4)
    assert found.multiplicities.tolist() == [1] * 5 + [3] * 3 + [1] * 5
    assert found.places.tolist() == list(range(1, 14))


def test_signs_and_bases_depend_on_the_graph_alone() -> None:
    view = find_graph("c1ccccc1C(C)(C)C")
    rng = np.random.default_rng(0)
    data = view.data.clone()
    vectors = view.eigenvectors.copy()
    for value in np.unique(view.eigenvalues):
        space = np.flatnonzero(view.eigenvalues == value)
        vectors[:, space] @= np.linalg.qr(rng.normal(size=(len(space),) * 2))[0]
    data.eigenvectors = data.eigenvectors.new_tensor(vectors).flatten()
    assert np.abs(vectors - view.eigenvectors).max() > 0.1
    turned = GraphView("turned", data, view.drawing)
    assert substructures(turned).eigenvectors == pytest.approx(
        substructures(view).eigenvectors, abs=1e-3
    )


def test_of_many_the_lowest_and_the_highest() -> None:
    found = substructures(find_graph("C" * 12), most=5)
    assert found.places.tolist() == [1, 2, 3, 11, 12]
    assert found.eigenvectors.shape == (12, 5)
    assert (np.diff(found.eigenvalues) > 0).all()
    with pytest.raises(DataError, match="most: must be at least 1"):
        substructures(find_graph("CC"), most=0)
