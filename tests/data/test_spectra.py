from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from eigenformer.data import DataError, GraphArchive, spectra_of
from eigenformer.data import spectra as module
from eigenformer.data.store import open_store, write_store
from eigenformer.spectrum import laplacian_spectrum
from tests.data.samples import random_archive


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK_GRAPHS", 7)


def assert_right(archive, spectra, k=None):
    for index, graph in enumerate(archive):
        expected = laplacian_spectrum(graph.edge_index, graph.num_nodes, k)
        values, vectors = spectra.graph(index, graph.num_nodes)
        np.testing.assert_allclose(values, expected.eigenvalues, atol=1e-6)
        # Eigenvectors are free up to a basis of each eigenspace; L = UΛUᵀ is not.
        rebuilt = (vectors * values) @ vectors.T
        matrix = expected.eigenvectors * expected.eigenvalues @ expected.eigenvectors.T
        np.testing.assert_allclose(rebuilt, matrix, atol=2e-6)


def test_spectra_of_every_graph(saved, small_chunks):
    spectra = spectra_of(saved)
    assert spectra.eigenvalues.dtype == spectra.eigenvectors.dtype == np.float32
    assert isinstance(spectra.eigenvectors.base, np.memmap)
    np.testing.assert_array_equal(spectra.counts, saved.num_nodes)
    assert_right(saved, spectra)


@pytest.mark.parametrize("k", [1, 3])
def test_the_lowest_frequencies_in_whole_eigenspaces(saved, small_chunks, k):
    spectra = spectra_of(saved, num_frequencies=k)
    assert (spectra.counts >= np.minimum(k, saved.num_nodes)).all()
    assert (spectra.counts <= saved.num_nodes).all()
    assert_right(saved, spectra, k)


def test_nothing_is_done_twice(saved, monkeypatch):
    first = spectra_of(saved)
    before = {file: file.stat().st_mtime_ns for file in first.path.iterdir()}
    monkeypatch.setattr(module, "solve", lambda *_: pytest.fail("computed again"))
    spectra_of(saved)
    assert before == {file: file.stat().st_mtime_ns for file in first.path.iterdir()}


def test_settings_and_content_have_their_own_caches(saved, tmp_path):
    paths = {spectra_of(saved, num_frequencies=k).path for k in (None, 2, 3)}
    other = random_archive(seed=2, count=40).save(tmp_path / "other")
    paths.add(spectra_of(other).path)
    assert len(paths) == 4


def test_one_moved_edge_is_other_content(saved, tmp_path):
    graphs = saved.to_data_list()
    graph = next(g for g in graphs if g.num_nodes > 2 and g.edge_index.size(1))
    graph.edge_index[0, 0] = (graph.edge_index[0, 0] + 1) % graph.num_nodes
    changed = GraphArchive.from_data_list(graphs)
    assert module.cache_folder(changed, None, tmp_path) != module.cache_folder(
        saved, None, tmp_path
    )


def test_other_targets_share_the_cache_and_memory_has_the_key_of_disk(saved, tmp_path):
    other = saved.with_split(np.zeros(40, np.uint8)).save(saved.path.with_name("other"))
    assert spectra_of(other).path == spectra_of(saved).path
    loose = random_archive(seed=1, count=40)
    assert module.cache_folder(loose, None, tmp_path) == module.cache_folder(saved, None, tmp_path)
    with pytest.raises(DataError, match="save it, or pass a folder"):
        spectra_of(loose)


def test_another_algorithm_is_another_cache(saved, monkeypatch):
    first = spectra_of(saved).path
    monkeypatch.setattr(module, "ALGORITHM", 99)
    assert spectra_of(saved).path != first


def damage_truncate(path):
    file = path / "eigenvectors.npy"
    file.write_bytes(file.read_bytes()[:-4])


def damage_flip(path):
    file = path / "eigenvectors.npy"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def damage_foreign(path):
    other = random_archive(seed=9, count=40).save(path.parent.parent / "foreign")
    foreign = spectra_of(other)
    shutil.rmtree(path)
    shutil.copytree(foreign.path, path)


def damage_missing(path):
    (path / "counts.npy").unlink()


def forge(name, change):
    """An array with other numbers, and all checksums right."""

    def damage(path):
        store = open_store(path, "spectrum")
        arrays = {key: np.array(values) for key, values in store.arrays.items()}
        arrays[name] = change(arrays[name])
        write_store(path, "spectrum", arrays, store.meta)

    damage.__name__ = f"forge_{name}"
    return damage


@pytest.mark.parametrize(
    "damage",
    [
        *(damage_truncate, damage_flip, damage_foreign, damage_missing),
        forge("vector_starts", lambda starts: starts + 1),
        forge("value_starts", lambda starts: -1 - starts),
        forge("counts", lambda counts: counts + 10**6),
        forge("counts", lambda counts: counts[:-1]),
        forge("eigenvalues", lambda values: values.astype("f8")),
    ],
)
def test_a_damaged_cache_is_named_and_rebuilt(saved, recorder, damage):
    path = spectra_of(saved).path
    damage(path)
    spectra = spectra_of(saved, reporter=recorder)
    assert len(recorder.notices) == 1
    assert str(path) in recorder.notices[0]
    assert_right(saved, spectra)
    assert spectra_of(saved, reporter=recorder).path == path
    assert len(recorder.notices) == 1


class Killed(Exception):
    pass


def interrupted(saved, monkeypatch, chunks):
    """Computes some chunks, then dies."""
    solve, calls = module.solve, []

    def dying(*arguments):
        if len(calls) == chunks:
            raise Killed
        calls.append(arguments)
        return solve(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "solve", dying)
        with pytest.raises(Killed):
            spectra_of(saved)


def test_a_killed_process_leaves_nothing_that_is_believed(saved, small_chunks, monkeypatch):
    folder = module.cache_folder(saved, None)
    left = folder.with_name(f".unfinished~{folder.name}~killed")
    left.mkdir(parents=True)
    interrupted(saved, monkeypatch, chunks=4)
    assert not folder.exists()
    assert_right(saved, spectra_of(saved))
    assert not left.exists()


def test_two_at_once_compute_once(saved, monkeypatch, small_chunks):
    solve, calls, results = module.solve, [], []

    def counting(*arguments):
        calls.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(module, "solve", counting)
    threads = [threading.Thread(target=lambda: results.append(spectra_of(saved))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert len(calls) == 6
    assert_right(saved, results[0])


def test_a_huge_graph_with_its_full_spectrum_is_refused_before_anything_is_done(tmp_path):
    nodes = 30_000
    ring = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(-1)])
    archive = GraphArchive.from_data_list(
        [Data(edge_index=ring, num_nodes=nodes)], names=["ring"]
    ).save(tmp_path / "big")
    with pytest.raises(
        DataError, match=r"graph 0 \('ring'\) has 30000 nodes.*for example num_frequencies=64"
    ):
        spectra_of(archive)
    assert not (tmp_path / "spectra").exists()


def test_a_large_graph_with_few_frequencies(tmp_path):
    graph = torch.randint(0, 3_000, (2, 9_000))
    data = Data(edge_index=graph, num_nodes=3_000)
    archive = GraphArchive.from_data_list([data]).save(tmp_path / "large")
    spectra = spectra_of(archive, num_frequencies=4)
    values, vectors = spectra.graph(0, 3_000)
    assert len(values) >= 4
    assert values[0] < 1e-9
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-5)


def test_k_is_checked(saved):
    with pytest.raises(DataError, match="num_frequencies: must be at least 1"):
        spectra_of(saved, num_frequencies=0)


def test_threads_of_the_caller_are_left_as_they_were(saved):
    before = torch.get_num_threads()
    spectra_of(saved)
    assert torch.get_num_threads() == before


def test_graphs_without_any_edge(tmp_path):
    graphs = [Data(x=torch.ones(n, 1), edge_index=torch.zeros(2, 0).long()) for n in (1, 3)]
    archive = GraphArchive.from_data_list(graphs).save(tmp_path / "graphs")
    assert spectra_of(archive).eigenvalues.tolist() == [0] * 4
    none = GraphArchive.from_data_list([]).save(tmp_path / "none")
    assert len(spectra_of(none).eigenvalues) == 0
