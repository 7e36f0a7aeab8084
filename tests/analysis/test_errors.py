"""Errors of single graphs: what they are, and which are the largest."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigenformer.analysis.errors import GraphErrors, graph_errors
from eigenformer.config import InputFormat, OwnData
from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import ClassTarget, LabelTarget, NumberTarget
from eigenformer.trained_model import TrainedModel


def test_numbers_are_judged_in_the_users_units() -> None:
    outputs = NumberTarget(num_outputs=3)
    error = outputs.error(torch.tensor([[1.0, 5.0, 0.0]]), torch.tensor([[3.0, math.nan, 1.0]]))
    assert error == pytest.approx(1.5)


def test_probabilities_are_judged_by_the_truths_share() -> None:
    labels = LabelTarget(num_outputs=2, kind="multilabel")
    error = labels.error(torch.tensor([[0.9, 0.2]]), torch.tensor([[1.0, 0.0]]))
    assert error == pytest.approx(-(math.log(0.9) + math.log(0.8)) / 2)
    classes = ClassTarget(level="node", num_outputs=2)
    probabilities = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7]])
    assert classes.error(probabilities, torch.tensor([1, -1, 1])) == pytest.approx(
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
    outputs = LabelTarget(level="node")
    found = graph_errors(model, dataset, outputs, batch_size=2)
    assert [len(rows) for rows in found.predictions] == archive.num_nodes.tolist()
    trained = TrainedModel("m", model, outputs, InputFormat(), OwnData(dataset="mine"))
    together = trained.predict(archive).numpy()
    assert np.concatenate(found.predictions) == pytest.approx(together, abs=1e-5)
    assert np.isfinite(found.errors).all()
