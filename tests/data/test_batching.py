from __future__ import annotations

import os
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torch_geometric.data import Batch

from eigenformer import Eigenformer, load_preset
from eigenformer.data import (
    DataError,
    GraphArchive,
    GraphDataset,
    keep_batch,
    prepare,
    spectra_of,
)
from eigenformer.data import batching as module
from eigenformer.data.errors import DamagedError
from eigenformer.data.workspace import Workspace
from tests.data.samples import archives, random_archive, random_graphs


def assert_same_batch(batch, expected):
    found, wanted = batch.to_dict(), expected.to_dict()
    wanted.pop("_num_nodes", None)  # PyG's own note, which no public call writes
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        if isinstance(value, torch.Tensor):
            assert found[name].dtype == value.dtype, name
            assert torch.equal(found[name], value), name
        else:
            assert found[name] == value, name
    assert batch.num_graphs == expected.num_graphs
    assert batch.num_nodes == expected.num_nodes


@settings(max_examples=40, deadline=None)
@given(archive=archives(), seed=st.integers(0, 1000), k=st.sampled_from([None, 2]))
def test_a_batch_is_what_pyg_makes_of_the_graphs(archive, seed, k, tmp_path_factory):
    spectra = spectra_of(archive, k, tmp_path_factory.mktemp("spectra"))
    dataset = GraphDataset(archive, spectra)
    chosen = np.random.default_rng(seed).integers(0, len(archive), 5)
    expected = Batch.from_data_list([dataset[int(index)] for index in chosen])
    assert_same_batch(dataset.batch(chosen), expected)


@pytest.mark.parametrize("short", [0, 10**9])
def test_long_and_short_runs_give_the_same(saved, monkeypatch, short):
    monkeypatch.setattr(module, "_SHORT_RUN", short)
    dataset = GraphDataset(saved, spectra_of(saved), split="val")
    expected = Batch.from_data_list([dataset[index] for index in range(len(dataset))])
    assert_same_batch(dataset.batch(range(len(dataset))), expected)


def test_texts_are_batched_as_pyg_does():
    graphs = random_graphs(0, 4)
    for number, graph in enumerate(graphs):
        graph.smiles = "C" * number
    dataset = GraphDataset(GraphArchive.from_data_list(graphs))
    expected = Batch.from_data_list([dataset[index] for index in (3, 0, 3)])
    batch = dataset.batch([3, 0, 3])
    assert batch.smiles == expected.smiles == ["CCC", "", "CCC"]


def test_without_spectra(saved):
    batch = GraphDataset(saved).batch([0, 3])
    assert "eigenvalues" not in batch
    assert batch.num_graphs == 2


def test_batches_do_not_write_into_the_archive(saved):
    dataset = GraphDataset(saved, spectra_of(saved))
    first = dataset.batch([0, 1])
    kept = first.clone()
    for value in first.to_dict().values():
        value.zero_()
    assert_same_batch(dataset.batch([0, 1]), kept)


def test_splits_and_indices(saved):
    assert len(GraphDataset(saved, split="train")) == 14
    part = GraphDataset(saved, indices=[5, 2])
    assert torch.equal(part[0].x, saved[5].x)
    assert torch.equal(part.batch([1, 0]).x, torch.cat([saved[2].x, saved[5].x]))
    with pytest.raises(DataError, match="not both"):
        GraphDataset(saved, split="train", indices=[1])
    with pytest.raises(IndexError):
        part[2]
    mask = np.zeros(40, dtype=bool)
    mask[[2, 5]] = True
    assert GraphDataset(saved, indices=mask).indices.tolist() == [2, 5]
    assert GraphDataset(saved, indices=[-1]).indices.tolist() == [39]
    with pytest.raises(IndexError, match="graph index 40 is out of range for 40 graphs"):
        GraphDataset(saved, indices=[40])
    with pytest.raises(DataError, match="1-D array of integers"):
        GraphDataset(saved, indices=[0.5])


def test_spectra_of_other_graphs_are_refused(saved, tmp_path):
    spectra = spectra_of(saved)
    with pytest.raises(DataError, match="do not belong to the graphs"):
        GraphDataset(saved.subset(range(39)), spectra)
    graphs = saved.to_data_list()
    graphs[3].edge_index = graphs[3].edge_index.roll(1, 1).flip(0)
    same_sizes = GraphArchive.from_data_list(graphs)
    with pytest.raises(DataError, match="do not belong to the graphs"):
        GraphDataset(same_sizes, spectra)
    GraphDataset(saved.with_split(np.zeros(40, np.uint8)), spectra)


def test_an_unsplit_archive_says_what_to_do(saved):
    unsplit = saved.with_split([None] * 40)
    with pytest.raises(DataError, match="no split; give them one"):
        GraphDataset(unsplit, split="train")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_visits_every_graph_once(saved, workers):
    dataset = GraphDataset(saved)
    batches = list(DataLoader(dataset, 7, True, num_workers=workers, collate_fn=keep_batch))
    assert [batch.num_graphs for batch in batches] == [7, 7, 7, 7, 7, 5]
    targets = torch.cat([batch.y for batch in batches])
    everything = dataset.batch(range(40)).y
    assert not torch.equal(targets, everything)
    assert sorted(targets.tolist()) == sorted(everything.tolist())


def test_a_large_archive_costs_no_memory(tmp_path):
    """What a batch needs is mapped, and no more of it is copied than the batch holds."""
    archive = random_archive(0, 200, max_nodes=120).save(tmp_path / "a")
    dataset = GraphDataset(archive, spectra_of(archive))
    for array in (dataset.spectra.eigenvectors, archive.edge_index, archive.fields["x"].values):
        assert isinstance(array.base, np.memmap)


@pytest.fixture(scope="module")
def zinc(raw_dir, tmp_path_factory):
    return prepare("zinc", Workspace(raw_dir, tmp_path_factory.mktemp("cache")))


def test_a_zinc_batch_takes_under_two_milliseconds(zinc):
    dataset = zinc.dataset("train")
    rng = np.random.default_rng(0)
    batches = [rng.permutation(len(dataset))[:128] for _ in range(30)]
    dataset.batch(batches[0])
    times = []
    for batch in batches:
        start = time.process_time()
        dataset.batch(batch)
        times.append(time.process_time() - start)
    assert np.median(times) < 2e-3


@pytest.mark.parametrize("name", ["zinc", "zinc-feat"])
def test_the_model_takes_zinc_batches(zinc, name):
    model = Eigenformer(load_preset(name).model).eval()
    with torch.no_grad():
        out = model(zinc.dataset("val").batch(range(4)))
    assert out.shape[0] == 4
    assert out.isfinite().all()


@pytest.mark.parametrize("name", ["graphs/field.x.npy", "spectra/*/eigenvectors.npy"])
def test_a_file_that_is_truncated_while_it_is_in_use_is_an_error(tmp_path, name):
    """Without one, the system would end the process."""
    archive = random_archive(count=300).save(tmp_path / "graphs")
    dataset = GraphDataset(archive.with_split(archive.split), spectra_of(archive))
    dataset.batch([299])
    (file,) = tmp_path.glob(name)
    os.truncate(file, 200)
    with pytest.raises(DamagedError, match=f"{file.name}: truncated while it was in use"):
        dataset.batch([299])
    with pytest.raises(DamagedError, match="truncated"):
        dataset[299]


def test_files_of_places_may_be_truncated_while_they_are_in_use(tmp_path):
    archive = random_archive(count=300).save(tmp_path / "graphs")
    dataset = GraphDataset(archive, spectra_of(archive))
    before = dataset.batch([299])
    names = ("*/*_offsets.npy", "*/split.npy", "*/*/*_starts.npy", "*/*/counts.npy")
    files = [file for name in names for file in tmp_path.glob(name)]
    assert len(files) >= 6
    for file in files:
        os.truncate(file, 0)
    assert torch.equal(dataset.batch([299]).eigenvectors, before.eigenvectors)
    assert archive.indices("train").size
