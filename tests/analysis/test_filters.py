from __future__ import annotations

import numpy as np
import pytest
import torch

from eigenformer import LaplacianSpectrum
from eigenformer.analysis.filters import learned_filters
from eigenformer.analysis.graph_view import find_graph
from eigenformer.models.eigenformer import Eigenformer


def test_filters_are_the_functions_of_the_layers() -> None:
    model = Eigenformer.from_preset("zinc", layers=3)
    filters = learned_filters(model, samples=11)
    assert filters.phi2.shape == filters.phi1.shape == (3, 8, 11)
    phi2 = model.layers[1].attention.phi2(torch.full((8, 1), 0.4))
    assert filters.phi2[1, :, 2] == pytest.approx(phi2[:, 0].detach().numpy(), abs=1e-6)
    scores = torch.from_numpy(filters.scores[2])
    phi1 = model.layers[2].attention.phi1(scores).detach().numpy()
    assert filters.phi1[2] == pytest.approx(phi1, abs=1e-6)


def test_spectral_filters_are_those_of_the_layers() -> None:
    model = Eigenformer.from_preset("zinc", layers=3, filters=6)
    found = learned_filters(model, samples=11)
    assert found.spectral is not None
    assert found.spectral.shape == (3, 6, 11)
    phi = model.layers[1].filters.phi(torch.full((6, 1), 0.4))
    assert found.spectral[1, :, 2] == pytest.approx(phi[:, 0].detach().numpy(), abs=1e-6)
    assert learned_filters(Eigenformer.from_preset("zinc", layers=1)).spectral is None


def test_no_score_of_a_graph_is_out_of_range() -> None:
    """The range of φ₁ is an inequality; a star comes near to it, with λ = 0, 1, 1, …, 2."""
    filters = learned_filters(Eigenformer.from_preset("zinc", layers=2), samples=2001)
    for smiles in ("C(C)(C)(C)C", "CC", "CCOC(=O)c1ccccc1"):
        view = find_graph(smiles)
        data = LaplacianSpectrum(dtype=torch.float64)(view.data)
        u = data.eigenvectors.view(data.num_nodes, -1).numpy()
        for layer in range(2):
            for head in range(8):
                phi2 = np.interp(data.eigenvalues, filters.eigenvalues, filters.phi2[layer, head])
                scores = u * phi2 @ u.T
                ends = filters.scores[layer, head, [0, -1]]
                slack = 1e-3 * (ends[1] - ends[0])
                assert scores.min() >= ends[0] - slack
                assert scores.max() <= ends[1] + slack
                pairs = scores[~np.eye(len(scores), dtype=bool)]
                assert np.abs(pairs).max() <= filters.reach[layer, head] + slack
