from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from eigenformer.data.errors import DamagedError
from eigenformer.data.store import (
    MANIFEST,
    GrowingArray,
    _digest,
    file_digest,
    open_store,
    remove_leftovers,
    save_array,
    temporary_folder,
    write_store,
)

ARRAYS = {"a": np.arange(1000, dtype=np.int32), "empty": np.empty((0, 3), np.float32)}


@pytest.fixture
def store(tmp_path):
    return write_store(tmp_path / "s", "test", ARRAYS, {"k": (1, 2)})


def test_reads_back_what_was_written(store):
    again = open_store(store.path, "test")
    for name, array in ARRAYS.items():
        assert again.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(again.arrays[name], array)
    assert again.meta == {"k": [1, 2]}
    assert again.digest == store.digest


@pytest.mark.parametrize(
    "array",
    [
        *(np.arange(6.0).reshape(2, 3).T, np.zeros((0, 2), "i4"), np.array([True, False])),
        *(np.arange(5, dtype=">u2"), np.arange(10)[::2]),
    ],
)
def test_files_are_those_of_numpy(tmp_path, array):
    save_array(tmp_path / "a.npy", array)
    np.save(tmp_path / "b.npy", np.ascontiguousarray(array))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
def test_a_full_disk_is_called_so(tmp_path):
    with pytest.raises(OSError, match="No space left on device"):  # NumPy: "0 written"
        save_array(Path("/dev/full"), np.zeros(10**6))
    with (
        pytest.raises(OSError, match="No space left on device: '.*graphs'"),
        temporary_folder(tmp_path / "graphs"),
        open("/dev/full", "wb", buffering=0) as stream,
    ):
        stream.write(b"x")
    assert not list(tmp_path.iterdir())


def test_arrays_are_mapped_and_cannot_be_written(store):
    array = open_store(store.path, "test").arrays["a"]
    assert isinstance(array.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_a_truncated_file_is_named(store):
    file = store.path / "a.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DamagedError, match=r"a\.npy: missing or truncated"):
        open_store(store.path, "test")


def test_a_manifest_that_says_too_little_is_damaged(store):
    # as an older version might have written it, with a checksum that fits
    file = store.path / "manifest.json"
    content = json.loads(file.read_text("utf-8"))
    del content["sha256"], content["arrays"]["a"]["bytes"]
    file.write_text(json.dumps({**content, "sha256": _digest(content)}), "utf-8")
    with pytest.raises(DamagedError, match="arrays.a.bytes is missing"):
        open_store(store.path, "test")


@pytest.mark.parametrize("name", ["a.npy", "empty.npy"])
def test_any_flipped_bit_is_found(store, name):
    file = store.path / name
    whole = file.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole) * 8, 40):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << (place % 8)
        file.write_bytes(flipped)
        with pytest.raises(DamagedError, match=name):
            open_store(store.path, "test")
    file.write_bytes(whole)
    open_store(store.path, "test")


def test_a_change_that_kept_size_and_time_is_found_by_its_checksum(store):
    file = store.path / "a.npy"
    status = file.stat()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    open_store(store.path, "test")  # nothing is read
    with pytest.raises(DamagedError, match=r"a\.npy: its checksum"):
        open_store(store.path, "test", verify=True)


def test_an_altered_manifest_is_found(store):
    file = store.path / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["meta"]["k"] = [1, 3]
    file.write_text(json.dumps(manifest))
    with pytest.raises(DamagedError, match=r"manifest\.json: its checksum"):
        open_store(store.path, "test")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": 1}', "\x00"])
def test_what_is_no_manifest_is_said(store, text):
    (store.path / "manifest.json").write_text(text)
    with pytest.raises(DamagedError, match=r"manifest\.json"):
        open_store(store.path, "test")


def test_another_kind_of_store_is_refused(store):
    with pytest.raises(DamagedError, match="holds 'test'"):
        open_store(store.path, "other")


def test_a_missing_array_is_named(store):
    (store.path / "a.npy").unlink()
    with pytest.raises(DamagedError, match=r"a\.npy: missing"):
        open_store(store.path, "test")


def test_an_older_folder_is_replaced_as_a_whole(store):
    write_store(store.path, "test", {"b": np.ones(3)}, {})
    assert set(open_store(store.path, "test").arrays) == {"b"}
    assert [path.name for path in store.path.parent.iterdir()] == ["s"]


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="a.npy: object values are not numbers"):
        write_store(tmp_path / "s", "test", {"a": np.array([object()])}, {})
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_one_name_only_are_removed(tmp_path):
    for name in ("zinc", "zinc-n5"):
        (tmp_path / f".unfinished~{name}~x").mkdir()
    remove_leftovers(tmp_path / "zinc")
    assert [path.name for path in tmp_path.iterdir()] == [".unfinished~zinc-n5~x"]


def test_a_temporary_folder_disappears(tmp_path):
    with temporary_folder(tmp_path / "s") as folder:
        (folder / "x").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_the_digest_sees_every_block(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenformer.data.store._BLOCK", 10)
    file = tmp_path / "f"
    seen = set()
    for place in range(35):
        data = bytearray(35)
        data[place] = 1
        file.write_bytes(data)
        seen.add(file_digest(file))
    assert len(seen) == 35


@pytest.mark.parametrize("lengths", [(), (0,), (3,), (5, 0, 123_456)])
def test_an_array_that_grew_is_numpys_own(lengths, tmp_path):
    parts = [np.random.default_rng(0).normal(size=n) for n in lengths]
    with GrowingArray(tmp_path / "x.npy") as growing:
        for part in parts:
            growing.append(part)
    array = np.load(tmp_path / "x.npy")
    assert array.dtype == np.float32
    expected = np.concatenate([np.zeros(0), *parts]).astype(np.float32)
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"arrays": []},
        {"arrays": {"a": {}}},
        {"arrays": {"a": {"dtype": 1, "shape": [], "bytes": 1, "sha256": ""}}},
        {"arrays": {"../a": {"dtype": "<f4", "shape": [1], "bytes": 4, "sha256": ""}}},
        {"format": "1"},
        {"kind": None},
        {"meta": 3},
    ],
)
def test_a_forged_manifest(tmp_path, changes):
    path = tmp_path / "store"
    write_store(path, "numbers", {"a": np.arange(3)}, {})
    manifest = json.loads((path / MANIFEST).read_text())
    del manifest["sha256"]
    manifest |= changes
    (path / MANIFEST).write_text(json.dumps({**manifest, "sha256": _digest(manifest)}))
    with pytest.raises(DamagedError, match=MANIFEST):
        open_store(path, "numbers")


@pytest.mark.parametrize("block", [1 << 26, 40])
def test_arrays_are_written_in_parts_of_another_type(tmp_path, monkeypatch, block):
    monkeypatch.setattr("eigenformer.data.store._BLOCK", block)
    values = np.arange(70, dtype=np.int32).reshape(35, 2)
    for array in (values, values.T, values[::3], values[:1], values[:0], np.asfortranarray(values)):
        save_array(tmp_path / "a.npy", array, np.dtype(np.uint8))
        found = np.load(tmp_path / "a.npy")
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, array)
        save_array(tmp_path / "b.npy", array)
        np.save(tmp_path / "c.npy", np.ascontiguousarray(array))
        assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "c.npy").read_bytes()
