"""The loop that predicts, and metrics with all frequencies or with a part of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.frequencies import sample_for
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import NumberTarget
from eigenformer.training.predicting import evaluate, frequency_seeds, predict_batches

OUTPUTS = NumberTarget(level="node")  # a figure that every change of an output changes


def _dataset() -> GraphDataset:
    archive = pattern((6, 1, 1))
    return GraphDataset(archive, memory_spectra(archive), indices=[5, 0, 3, 4])


def _model(**changes: object) -> Eigenformer:
    sizes = {"layers": 2, "hidden_dim": 16, "phi_width": 4}
    return Eigenformer.from_preset("pattern", **sizes, **changes).eval()


def _mae(model: Eigenformer, batch_size: int = 32, draw: int | None = None) -> float:
    def sampled(batch: Batch, places: np.ndarray) -> Batch:
        return (
            batch
            if draw is None
            else sample_for(model.config, batch, frequency_seeds(draw, places))
        )

    return evaluate(model, _dataset(), OUTPUTS, batch_size, ("mae",), sampled)["mae"]


def test_graphs_come_in_order_with_their_places() -> None:
    model, found = _model(), []
    for size in (1, 3, 4):
        batches = list(predict_batches(model, _dataset(), size))
        assert [len(batch.places) for batch in batches] == {1: [1] * 4, 3: [3, 1], 4: [4]}[size]
        assert np.concatenate([batch.places for batch in batches]).tolist() == [5, 0, 3, 4]
        found.append(torch.cat([batch.output for batch in batches]))
    torch.testing.assert_close(found[0], found[2], rtol=1e-4, atol=1e-5)
    assert not found[0].requires_grad


def test_the_seeds_of_a_draw_are_those_of_the_places() -> None:
    seeds = frequency_seeds(3, np.array([5, 0, 3]))
    assert seeds[1:] == frequency_seeds(3, np.array([0, 3]))
    assert len({*seeds, *frequency_seeds(4, np.array([5, 0, 3]))}) == 6


def test_a_part_of_the_frequencies_gives_another_figure() -> None:
    model = _model(frequency_fraction=0.1)
    everything, drawn = _mae(model), _mae(model, draw=0)
    assert _mae(model, batch_size=1, draw=0) == pytest.approx(drawn, rel=1e-6)
    others = [_mae(model, draw=draw) for draw in (1, 2)]
    assert len({everything, drawn, *others}) == 4


def test_a_model_of_all_frequencies_has_nothing_to_draw() -> None:
    model = _model()
    assert _mae(model, draw=0) == _mae(model)
