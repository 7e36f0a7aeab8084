from __future__ import annotations

import pytest

from eigenformer.data import BENCHMARKS, DataError, prepare
from eigenformer.data.listing import find_archive, list_entries
from eigenformer.data.sources import Sources


def test_an_empty_cache_lists_the_benchmarks(tmp_path):
    entries = list_entries(Sources(None, tmp_path / "nowhere"))
    assert [entry.name for entry in entries] == list(BENCHMARKS)
    assert all(entry.path is None for entry in entries)


def test_what_is_there(tmp_path, saved):
    sources = Sources(None, tmp_path)
    prepare("pattern", cache_dir=tmp_path, size=10)
    entries = {entry.name: entry for entry in list_entries(sources)}
    assert set(entries) == {*BENCHMARKS, "pattern-n10", "graphs"}
    pattern = entries["pattern-n10"]
    assert pattern.statistics.graphs == 10
    assert pattern.task.kind == "binary"
    assert pattern.spectra_bytes > pattern.statistics.pairs * 4
    assert entries["graphs"].spectra_bytes is None
    assert find_archive("pattern-n10", sources) == find_archive(str(pattern.path), sources)


def test_a_damaged_archive_is_listed_as_such(tmp_path, saved):
    (saved.path / "split.npy").write_bytes(b"")
    entry = list_entries(Sources(None, tmp_path))[-1]
    assert "split.npy" in entry.problem


def test_names_that_are_not_there(tmp_path):
    sources = Sources(None, tmp_path)
    with pytest.raises(DataError, match="run  eigenformer data prepare zinc"):
        find_archive("zinc", sources)
    with pytest.raises(DataError, match="the nearest is 'mnist'"):
        find_archive("mnits", sources)
