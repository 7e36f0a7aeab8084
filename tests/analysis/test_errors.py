"""Errors of single graphs: what they are, and which are the largest."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenformer.analysis.errors import GraphErrors, _error, graph_errors, wrong_nodes
from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.outputs import Outputs
from eigenformer.training.prediction import predict_graphs


def test_numbers_are_judged_in_the_users_units() -> None:
    outputs = Outputs("graph", "regression", 3)
    error = _error(outputs, torch.tensor([[1.0, 5.0, 0.0]]), torch.tensor([[3.0, math.nan, 1.0]]))
    assert error == pytest.approx(1.5)


def test_probabilities_are_judged_by_the_truths_share() -> None:
    labels = Outputs("graph", "multilabel", 2)
    error = _error(labels, torch.tensor([[0.9, 0.2]]), torch.tensor([[1.0, 0.0]]))
    assert error == pytest.approx(-(math.log(0.9) + math.log(0.8)) / 2)
    classes = Outputs("node", "multiclass", 2)
    probabilities = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7]])
    assert _error(classes, probabilities, torch.tensor([1, -1, 1])) == pytest.approx(
        -(math.log(0.1) + math.log(0.7)) / 2
    )


def test_the_worst_come_first_and_the_unknown_not_at_all() -> None:
    nothing = (np.zeros((1, 1)),) * 4
    errors = GraphErrors(nothing, nothing, np.array([0.5, math.nan, 2.0, 1.0]))
    assert errors.worst(2) == [2, 3]
    assert errors.worst(9) == [2, 3, 0]


def test_nodes_stay_with_their_graph() -> None:
    archive = pattern((3, 1, 1))
    dataset = GraphDataset(archive, memory_spectra(archive))
    model = Eigenformer.from_preset("pattern", layers=1, hidden_dim=16, phi_width=4).eval()
    outputs = Outputs("node", "binary", 1)
    found = graph_errors(model, dataset, outputs, batch_size=2)
    assert [len(rows) for rows in found.predictions] == archive.num_nodes.tolist()
    together = predict_graphs(model, archive, outputs).numpy()
    assert np.concatenate(found.predictions) == pytest.approx(together, abs=1e-5)
    assert np.isfinite(found.errors).all()


def test_wrong_nodes() -> None:
    prediction, target = np.array([[0.9], [0.2], [0.8]]), np.array([[1.0], [1.0], [np.nan]])
    assert wrong_nodes(Outputs("node", "binary", 1), prediction, target).tolist() == [1]
    assert not len(wrong_nodes(Outputs("graph", "binary", 1), prediction, target))
    classes = np.array([[0.1, 0.9], [0.8, 0.2]])
    outputs = Outputs("node", "multiclass", 2)
    assert wrong_nodes(outputs, classes, np.array([0, 0])).tolist() == [0]
