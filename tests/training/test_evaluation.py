"""Evaluation: with all frequencies, or with the same part of them every time."""

from __future__ import annotations

import pytest

from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.models.eigenformer import Eigenformer
from eigenformer.targets import NumberTarget
from eigenformer.training.evaluation import evaluate, seeded_batches

OUTPUTS = NumberTarget(level="node")  # a figure that every change of an output changes


def _dataset() -> GraphDataset:
    archive = pattern((6, 1, 1))
    return GraphDataset(archive, memory_spectra(archive), indices=[5, 0, 3, 4])


def _model(**changes: object) -> Eigenformer:
    sizes = {"layers": 2, "hidden_dim": 16, "phi_width": 4}
    return Eigenformer.from_preset("pattern", **sizes, **changes).eval()


def test_a_draw_does_not_depend_on_the_batches() -> None:
    dataset = _dataset()
    single = [seeds for _, seeds in seeded_batches(dataset, 1, draw=3)]
    several = [seeds for _, seeds in seeded_batches(dataset, 3, draw=3)]
    flat = [seed for seeds in single for seed in seeds or ()]
    assert flat == [seed for seeds in several for seed in seeds or ()]
    assert len(set(flat)) == 4
    assert [seeds for _, seeds in seeded_batches(dataset, 4)] == [None]


def test_a_part_of_the_frequencies_gives_another_figure() -> None:
    model, dataset = _model(frequency_fraction=0.1), _dataset()
    everything = evaluate(model, dataset, OUTPUTS)
    drawn = evaluate(model, dataset, OUTPUTS, draw=0)
    assert evaluate(model, dataset, OUTPUTS, batch_size=1, draw=0) == pytest.approx(drawn, rel=1e-6)
    others = [evaluate(model, dataset, OUTPUTS, draw=draw) for draw in (1, 2)]
    assert len({everything, drawn, *others}) == 4


def test_a_model_of_all_frequencies_has_nothing_to_draw() -> None:
    model, dataset = _model(), _dataset()
    assert evaluate(model, dataset, OUTPUTS, draw=0) == evaluate(model, dataset, OUTPUTS)
