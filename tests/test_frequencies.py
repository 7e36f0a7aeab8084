"""Random parts of the frequencies: how many, which, and the same ones as ever."""

from __future__ import annotations

import copy
import math

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from eigenformer import Eigenformer, LaplacianSpectrum
from eigenformer.config import MessagePassingConfig, OnesSpec, RunConfig, load_preset
from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.frequencies import sample_for, sample_frequencies
from eigenformer.ragged import RaggedGraphs
from eigenformer.targets import NumberTarget, make_target
from eigenformer.training.in_memory import fit_in_memory
from eigenformer.training.predicting import evaluate, frequency_seeds
from eigenformer.transfer import on_device
from tests.graphs import from_networkx, named_graphs, random_batch, small_config


def parts(batch: Data) -> list[Tensor]:
    """The weights of each graph."""
    ragged = RaggedGraphs.from_data(batch)
    assert ragged.frequency_weights is not None
    return list(ragged.frequency_weights.split(list(ragged.num_frequencies)))


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.81, 1.0])
def test_the_literal_draw_keeps_exactly_its_share(fraction):
    batch = random_batch([1, 5, 10, 37])
    sampled = sample_frequencies(batch, fraction, whole_eigenspaces=False)
    expected = [math.ceil(round(fraction * n, 6)) for n in (1, 5, 10, 37)]
    assert [int(part.sum()) for part in parts(sampled)] == expected


@given(st.floats(0.05, 1.0), st.integers(0, 1000))
def test_whole_eigenspaces_are_drawn_outwards(fraction, seed):
    graphs = [named_graphs()[n] for n in ("cycle", "complete", "hypercube", "two equal cycles")]
    torch.manual_seed(seed)
    sampled = sample_frequencies(Batch.from_data_list(graphs), fraction)
    for data, kept in zip(graphs, parts(sampled), strict=True):
        spaces, number, sizes = data.eigenvalues.unique(return_inverse=True, return_counts=True)
        per_space = torch.zeros(len(spaces)).index_add(0, number, kept)
        assert ((per_space == 0) | (per_space == sizes)).all()
        share = math.ceil(fraction * data.num_nodes - 1e-9)
        taken = sizes[per_space > 0]
        assert taken.sum() >= share
        # Outwards, but no further: without the last space drawn it would be too few.
        assert taken.sum() - taken.max() < share


@pytest.mark.parametrize("whole", [True, False])
def test_a_draw_by_seeds_depends_on_the_graph_alone(whole):
    graphs = random_batch([9, 12, 7]).to_data_list()
    together = Batch.from_data_list(graphs)
    found = parts(sample_frequencies(together, 0.4, whole, seeds=[5, 6, 7]))
    for data, seed, part in zip(graphs, (5, 6, 7), found, strict=True):
        torch.rand(3)
        alone = sample_frequencies(data, 0.4, whole, seeds=[seed])
        assert torch.equal(alone.frequency_weights, part)
    other = parts(sample_frequencies(together, 0.4, whole, seeds=[8, 9, 10]))
    assert not all(torch.equal(a, b) for a, b in zip(found, other, strict=True))
    with pytest.raises(ValueError, match="seeds: got 2 for 3 graphs"):
        sample_frequencies(together, 0.4, whole, seeds=[1, 2])


def test_every_frequency_is_drawn_sometimes_and_at_least_one():
    batch = random_batch([10])
    total = sum(sample_frequencies(batch, 0.3).frequency_weights for _ in range(200))
    assert total.min() > 20
    assert "frequency_weights" not in batch  # what is given stays as it is
    assert sample_frequencies(batch, 1e-10).frequency_weights.sum() == 1


RECORDED = {
    (True, None): [1, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1],
    (True, (3, 4, 5)): [1, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1],
    (False, None): [1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1],
    (False, (3, 4, 5)): [1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0],
}
"""Draws of the version that drew inside the model: old runs can be repeated and resumed."""


@pytest.mark.parametrize(("whole", "seeds"), RECORDED)
def test_the_draws_are_those_of_old_runs(whole, seeds):
    graphs = [nx.cycle_graph(7), nx.path_graph(5), nx.complete_graph(6)]
    batch = Batch.from_data_list([from_networkx(g) for g in graphs])
    torch.manual_seed(1)
    sampled = sample_frequencies(batch, 0.4, whole, seeds)
    assert sampled.frequency_weights.int().tolist() == RECORDED[whole, seeds]


@pytest.mark.parametrize("whole", [True, False])
def test_a_sample_reads_nothing_back_from_a_device(whole, monkeypatch):
    """The device "meta" stands for a GPU: it has no numbers to read, in float64 or any type."""
    model = Eigenformer(small_config(frequency_fraction=0.3))
    batch = model.check(random_batch([6, 7, 4]))
    torch.manual_seed(1)
    expected = sample_frequencies(batch, 0.3, whole).frequency_weights
    moved, given = [], on_device

    def move(numbers, device, *arguments):
        moved.append((numbers, device.type))
        return given(numbers, device, *arguments)

    monkeypatch.setattr("eigenformer.frequencies.on_device", move)
    torch.manual_seed(1)
    found = sample_frequencies(copy.copy(batch).to("meta"), 0.3, whole)
    ((numbers, place),) = moved
    assert place == "meta"
    assert found.frequency_weights.is_meta
    assert found.frequency_weights.dtype == torch.float32
    assert torch.equal(numbers, expected.bool())


@pytest.mark.parametrize("draw", ["eigenspaces", "literal"])
def test_a_training_is_that_of_an_old_run(draw):
    """With dropout, and with statistics that are recomputed on all frequencies."""
    archive, preset = pattern((12, 4, 1)), load_preset("pattern")
    sizes = {"layers": 2, "hidden_dim": 16, "heads": 4, "phi_width": 4}
    dropout = {"dropout": 0.1, "attention_dropout": 0.1}
    model = preset.model.replace(**sizes, **dropout, frequency_fraction=0.3, frequency_draw=draw)
    training = preset.training.replace(
        epochs=3, batch_size=4, warmup_epochs=0, recompute_statistics=2
    )
    data = {"dataset": "pattern", "kind": "benchmark"}
    values = {"data": data, "preset": "pattern", "precision": "64"}
    config = RunConfig.from_dict({**values, "model": model, "training": training})
    torch.manual_seed(0)
    network = Eigenformer(model, "torch").double()
    spectra = memory_spectra(archive)
    train, val = (GraphDataset(archive, spectra, split=split) for split in ("train", "val"))
    rows = fit_in_memory(network, make_target("binary", level="node"), config, train, val)
    found = [(row["train_loss"], row["val_loss"]) for row in rows]
    expected = [
        (0.20421625969014479, 0.19638669484579438),
        (0.20269842503778296, 0.19623375742158258),
        (0.20429630443524244, 0.1961744763201719),
    ]
    for mine, recorded in zip(found, expected, strict=True):
        assert mine == pytest.approx(recorded, rel=1e-9)


def test_only_an_eigenformer_with_a_fraction_samples():
    batch = random_batch([6, 7])
    assert sample_for(small_config(), batch) is batch
    assert sample_for(MessagePassingConfig(node_encoder=OnesSpec()), batch) is batch
    assert sample_for(None, batch) is batch
    config = small_config(frequency_fraction=0.3)
    expected = sample_frequencies(batch, 0.3, True, [1, 2])
    found = sample_for(config, batch, [1, 2])
    assert torch.equal(found.frequency_weights, expected.frequency_weights)


def test_weights_of_another_length_are_refused():
    data = LaplacianSpectrum()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    assert sample_frequencies(data, 0.4).frequency_weights.shape == (3,)
    data.frequency_weights = torch.ones(2)
    with pytest.raises(ValueError, match=r"frequency_weights: shape \(2,\), expected one for each"):
        RaggedGraphs.from_data(data)
    with pytest.raises(ValueError, match="the graphs have no 'eigenvalues'"):
        sample_frequencies(Data(num_nodes=3), 0.4)


def test_a_part_of_the_frequencies_gives_another_figure():
    archive = pattern((6, 1, 1))
    dataset = GraphDataset(archive, memory_spectra(archive), indices=[5, 0, 3, 4])
    sizes = {"layers": 2, "hidden_dim": 16, "phi_width": 4}
    model = Eigenformer.from_preset("pattern", **sizes, frequency_fraction=0.1).eval()
    target = NumberTarget(level="node")  # a figure that every change of an output changes

    def mae(draw: int, batch_size: int = 32) -> float:
        def sampled(batch, places):
            return sample_for(model.config, batch, frequency_seeds(draw, places))

        return evaluate(model, dataset, target, batch_size, ("mae",), sampled)["mae"]

    everything = evaluate(model, dataset, target)["mae"]
    assert mae(0, batch_size=1) == pytest.approx(mae(0), rel=1e-6)
    assert len({everything, *(mae(draw) for draw in range(3))}) == 4
