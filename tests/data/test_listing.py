from __future__ import annotations

import pytest

from eigenformer.data import BENCHMARKS, DataError, prepare, spectra_of
from eigenformer.data.listing import entry, find_archive, list_entries
from eigenformer.data.workspace import Workspace


def test_an_empty_cache_lists_the_benchmarks(tmp_path):
    entries = list_entries(Workspace(None, tmp_path / "nowhere"))
    assert [entry.name for entry in entries] == list(BENCHMARKS)
    assert all(entry.path is None for entry in entries)


def test_what_is_there(tmp_path, saved):
    sources = Workspace(None, tmp_path)
    prepare("pattern", workspace=Workspace(None, tmp_path), size=10)
    entries = {entry.name: entry for entry in list_entries(sources)}
    assert set(entries) == {*BENCHMARKS, "pattern-n10", "graphs"}
    pattern = entries["pattern-n10"]
    assert pattern.statistics.graphs == 10
    assert pattern.target.kind == "binary"
    assert list(pattern.spectra.values()) == [None]
    assert all(path.parent == tmp_path / "spectra" for path in pattern.spectra)
    assert entries["graphs"].spectra == {}
    assert find_archive("pattern-n10", sources) == find_archive(str(pattern.path), sources)


def test_a_damaged_archive_is_listed_as_such(tmp_path, saved):
    (saved.path / "split.npy").write_bytes(b"")
    entry = list_entries(Workspace(None, tmp_path))[-1]
    assert "split.npy" in entry.problem


def test_names_that_are_not_there(tmp_path):
    sources = Workspace(None, tmp_path)
    with pytest.raises(DataError, match="run  eigenformer data prepare zinc"):
        find_archive("zinc", sources)
    with pytest.raises(DataError, match="the nearest is 'mnist'"):
        find_archive("mnits", sources)
    with pytest.raises(DataError, match="not prepared yet; run  eigenformer data prepare"):
        find_archive(str(tmp_path), sources)


def test_spectra_of_every_k_are_found_beside_the_archive_and_in_the_cache(tmp_path, saved):
    spectra_of(saved)
    spectra_of(saved, num_frequencies=2)
    spectra_of(saved, num_frequencies=3, folder=tmp_path / "cache" / "spectra")
    spectra_of(saved.subset(range(5)), folder=tmp_path / "spectra")  # of other graphs
    found = entry(saved.path, Workspace(None, tmp_path / "cache")).spectra
    assert sorted(found.values(), key=str) == [2, 3, None]
    full = next(path for path, k in found.items() if k is None)
    (full / "manifest.json").write_text("nonsense")
    assert entry(saved.path, Workspace(None, tmp_path)).spectra[full] is None
