from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eigenformer.data import DataError, GraphArchive, ReadOptions, building, prepare, prepare_own
from eigenformer.data import preparation as module
from eigenformer.data.workspace import Workspace
from eigenformer.reporting import Reporter
from eigenformer.spectrum import laplacian_spectrum
from tests.data.samples import equal_archives


def small(cache, **options):
    workspace = Workspace(None, cache, reporter=options.pop("reporter", Reporter()))
    return prepare("cluster", workspace, **{"size": 12, **options})


def files(folder):
    return {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def test_ready_to_train_on(tmp_path):
    prepared = small(tmp_path)
    assert [len(prepared.dataset(name)) for name in ("train", "val", "test")] == [10, 1, 1]
    batch = prepared.dataset("train").batch([0, 1])
    graph = prepared.dataset("train")[1]
    expected = laplacian_spectrum(graph.edge_index, graph.num_nodes)
    np.testing.assert_allclose(graph.eigenvalues, expected.eigenvalues, atol=1e-6)
    assert len(batch.eigenvalues) == batch.num_nodes


def test_the_second_time_does_nothing(tmp_path, recorder):
    small(tmp_path)
    before = files(tmp_path)
    small(tmp_path, reporter=recorder)
    assert files(tmp_path) == before
    assert recorder.said == recorder.notices == []


def test_a_finished_cache_may_be_read_only(tmp_path, monkeypatch):
    small(tmp_path)
    monkeypatch.setattr(building, "_locked", lambda *_: pytest.fail("locked to read"))
    monkeypatch.setattr(
        "eigenformer.data.spectra.FileLock", lambda _: pytest.fail("locked to read")
    )
    small(tmp_path)


def test_every_choice_has_its_own_archive(tmp_path):
    paths = {
        small(tmp_path, with_spectra=False, **options).archive.path.name
        for options in ({}, {"size": 13}, {"seed": 1}, {"size": 13, "seed": 1})
    }
    assert paths == {"cluster-n12", "cluster-n13", "cluster-n12-seed1", "cluster-n13-seed1"}


def test_k_is_passed_on(tmp_path):
    spectra = small(tmp_path, num_frequencies=3).spectra
    assert (spectra.counts >= 3).all()
    assert spectra.counts.max() < 20


@pytest.mark.parametrize("name", ["field.x.npy", "edge_index.npy", "manifest.json"])
def test_a_damaged_archive_is_named_and_built_anew(tmp_path, recorder, name):
    archive = small(tmp_path).archive
    expected = [graph.edge_index for graph in archive]
    file = archive.path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()  # the old one stays mapped
    file.write_bytes(data)
    again = small(tmp_path, reporter=recorder).archive
    assert name in recorder.notices[0]
    assert "rebuilding" in recorder.notices[0]
    assert all((a.edge_index == b).all() for a, b in zip(again, expected, strict=True))
    GraphArchive.open(again.path)


def test_a_cache_is_opened_without_reading_what_has_its_old_size_and_time(tmp_path, monkeypatch):
    (tmp_path / "mine.csv").write_text(TABLE)
    prepare_own(tmp_path / "mine.csv", workspace=Workspace(None, tmp_path / "cache"))
    for place in ("building", "store"):
        monkeypatch.setattr(
            f"eigenformer.data.{place}.file_digest", lambda file: pytest.fail(f"read {file}")
        )
    monkeypatch.chdir(tmp_path)
    prepare_own("mine.csv", workspace=Workspace(None, Path("cache")))  # by another path


def test_raw_files_that_were_only_touched_are_the_same(tmp_path):
    for name in ("pictures/a/1.pt", "pictures/b/a/1.pt"):  # alike in their last two parts
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    files = sorted((tmp_path / "pictures").rglob("*.pt"))
    named = building.named_files(files)
    assert list(named) == ["pictures/a/1.pt", "pictures/b/a/1.pt"]
    inputs = {name: building.file_digest(file) for name, file in named.items()}
    stamps = {name: building._stamp(file) for name, file in named.items()}
    os.utime(files[0])
    assert building.changed_files(named, inputs, stamps) == []
    files[0].write_text("changed")
    assert building.changed_files(named, inputs, stamps) == [files[0]]


def test_another_version_is_built_anew(tmp_path, recorder, monkeypatch):
    small(tmp_path)
    monkeypatch.setattr(module, "BUILD_VERSION", 99)
    small(tmp_path, reporter=recorder)
    assert "another version" in recorder.notices[0]


def test_changed_raw_files_are_noticed(raw_dir, tmp_path, recorder):
    raw = tmp_path / "raw"
    (raw / "zinc").mkdir(parents=True)
    shutil.copy(raw_dir / "zinc" / "zinc12k.npz", raw / "zinc")
    first = prepare(
        "zinc", Workspace(raw, tmp_path / "cache", reporter=recorder), with_spectra=False
    )
    recorder.said.clear()
    prepare("zinc", Workspace(raw, tmp_path / "cache", reporter=recorder), with_spectra=False)
    assert recorder.said == []
    with np.load(raw / "zinc" / "zinc12k.npz") as arrays:
        changed = dict(arrays)
    changed["y"] = changed["y"] + 1
    (raw / "zinc" / "zinc12k.npz").unlink()
    np.savez(raw / "zinc" / "zinc12k.npz", **changed)
    again = prepare(
        "zinc", Workspace(raw, tmp_path / "cache", reporter=recorder), with_spectra=False
    )
    assert "the raw files have changed" in recorder.notices[0]
    assert again.archive[0].y == first.archive.fields["y"].values[0] + 1
    # Without the raw files at hand, what was built of them is still good.
    shutil.rmtree(raw)
    recorder.said.clear()
    environment_free = prepare("zinc", Workspace(tmp_path, tmp_path / "cache"), with_spectra=False)
    assert equal_archives(environment_free.archive, again.archive)


def test_raw_folders_are_only_read(raw_dir, tmp_path):
    before = files(raw_dir / "zinc")
    prepare("zinc", Workspace(raw_dir, tmp_path), with_spectra=False)
    assert files(raw_dir / "zinc") == before


def test_names_and_settings_that_do_not_fit(tmp_path):
    with pytest.raises(DataError, match="the nearest is 'cifar10'"):
        prepare("cifar", workspace=Workspace(None, tmp_path))
    with pytest.raises(DataError, match="to pattern and cluster only"):
        prepare("zinc", workspace=Workspace(None, tmp_path), size=3)
    with pytest.raises(DataError, match="size and seed do not apply"):
        prepare("pattern", workspace=Workspace(None, tmp_path), size=3, official=True)


TABLE = "smiles,y\nCCO,1\nxyz,2\nc1ccccc1,3\n"


def test_own_molecules(tmp_path, recorder):
    path = tmp_path / "mine.csv"
    path.write_text(TABLE)
    options = ReadOptions(targets=("y",))
    prepared = prepare_own(
        path, options, workspace=Workspace(None, tmp_path / "cache", reporter=recorder)
    )
    assert prepared.archive.path == tmp_path / "cache" / "mine"
    assert len(prepared.dataset().batch([0, 1]).eigenvalues) == 9
    assert recorder.notices == [
        f"{path}, line 3: 'xyz': invalid SMILES",
        f"{path}: 1 rows rejected, 2 graphs read; the archive's meta['rejected'] lists the "
        "rejected rows",
    ]
    before = files(tmp_path / "cache")
    again = prepare_own(
        path, options, workspace=Workspace(None, tmp_path / "cache", reporter=recorder)
    )
    assert files(tmp_path / "cache") == before
    assert len(recorder.notices) == 4  # the bad row is named every time
    path.write_text(TABLE + "CCCC,4\n")
    again = prepare_own(
        path, options, workspace=Workspace(None, tmp_path / "cache", reporter=recorder)
    )
    assert len(again.archive) == 3
    assert len(again.spectra.counts) == 3
    other = prepare_own(
        path, ReadOptions(), workspace=Workspace(None, tmp_path / "cache", reporter=recorder)
    )
    assert "y" not in other.archive.fields


def test_own_archive(saved, tmp_path):
    prepared = prepare_own(saved.path, workspace=Workspace(None, tmp_path / "cache"))
    assert prepared.spectra.path.parent == saved.path.parent / "spectra"
    assert len(prepared.dataset()) == 40


def test_own_names(tmp_path):
    (tmp_path / "zinc.csv").write_text(TABLE)
    with pytest.raises(DataError, match="'zinc' is a benchmark"):
        prepare_own(tmp_path / "zinc.csv", workspace=Workspace(None, tmp_path / "cache"))
    prepared = prepare_own(
        tmp_path / "zinc.csv", name="mine", workspace=Workspace(None, tmp_path / "cache")
    )
    assert prepared.name == "mine"
    with pytest.raises(DataError, match="no such file"):
        prepare_own(tmp_path / "nowhere.csv", workspace=Workspace(None, tmp_path / "cache"))


def command(cache, *more):
    arguments = [sys.executable, "-m", "eigenformer", "data", "prepare", "cluster"]
    return [*arguments, "--cache-dir", str(cache), *more]


def start(cache, *more):
    return subprocess.Popen(
        command(cache, *more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_two_processes_at_once(tmp_path):
    processes = [start(tmp_path, "--size", "60") for _ in range(2)]
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    built = [output.count("building the archive") for output in outputs]
    assert sorted(built) == [0, 1]
    assert len(prepare("cluster", workspace=Workspace(None, tmp_path), size=60).dataset()) == 60
    assert not list(tmp_path.glob(".unfinished*"))


@pytest.mark.parametrize("moment", [".unfinished~*", "spectra/.unfinished~*/eigenvectors.npy"])
def test_a_killed_process_leaves_nothing_that_is_believed(tmp_path, moment):
    """SIGKILL while the archive is written, and while spectra are computed."""
    size = "1300"  # two chunks of spectra
    process = start(tmp_path, "--size", size, "--workers", "1")
    deadline = time.monotonic() + 600
    while process.poll() is None and time.monotonic() < deadline:
        if any(path.exists() and path.stat().st_size for path in tmp_path.glob(moment)):
            break
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"
    assert not [path for path in tmp_path.glob("spectra/*") if len(path.name) == 24]
    if moment.startswith(".unfinished"):
        assert not (tmp_path / f"cluster-n{size}").exists()
        assert list(tmp_path.glob(".unfinished~*"))
    again = prepare("cluster", workspace=Workspace(None, tmp_path), size=int(size))
    assert not list(tmp_path.glob(".unfinished*"))
    assert not list(tmp_path.glob("spectra/.unfinished*"))
    fresh = prepare(
        "cluster", workspace=Workspace(None, tmp_path / "fresh"), size=int(size), with_spectra=False
    )
    assert equal_archives(again.archive, fresh.archive)
    for index in range(0, int(size), 97):
        graph = again.dataset()[index]
        expected = laplacian_spectrum(graph.edge_index, graph.num_nodes)
        np.testing.assert_allclose(graph.eigenvalues, expected.eigenvalues, atol=1e-6)


def test_other_data_by_the_name_of_a_benchmark_is_noticed(tmp_path, recorder):
    count = 30
    (tmp_path / "raw" / "zinc").mkdir(parents=True)
    np.savez(
        tmp_path / "raw" / "zinc" / "zinc12k.npz",
        atom_type=np.zeros(2 * count, np.uint8),
        node_offset=2 * np.arange(count + 1),
        bond=np.tile([[0, 1, 1]], (count, 1)),
        bond_offset=np.arange(count + 1),
        y=np.arange(count, dtype=np.float32),
        split=np.arange(count) % 3,
    )
    prepare("zinc", Workspace(tmp_path / "raw", tmp_path / "cache", reporter=recorder))
    assert any("not the zinc of the paper (30 graphs" in text for text in recorder.notices)
