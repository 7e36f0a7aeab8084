"""A file is there whole or as it was."""

import os
import platform
import subprocess
import sys

import pytest

from eigenformer.files import (
    PathError,
    check_path,
    is_temporary,
    remove_leftovers_of,
    write_atomic,
)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "file"
    write_atomic(file, b"old")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(file, b"new")
    assert file.read_bytes() == b"old"
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_is_named_by_its_own_name(tmp_path):
    with pytest.raises(OSError, match=r"nowhere/model\.json'$"):
        write_atomic(tmp_path / "nowhere" / "model.json", b"")


def test_leftovers_of_killed_processes_are_removed_and_no_others(tmp_path):
    file = tmp_path / "p.csv"
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    process, host = int(ended.stdout), platform.node()
    names = {
        f".p.csv~{host}~{process}~abcdefgh": False,
        f".p.csv~{host}~{os.getpid()}~abcdefgh": True,
        f".p.csv~another{host}~{process}~abcdefgh": True,
        f".q.csv~{host}~{process}~abcdefgh": True,
        "p.csv~": True,
    }
    for name in names:
        (tmp_path / name).write_bytes(b"")
    remove_leftovers_of(file)
    assert {f.name for f in tmp_path.iterdir()} == {name for name, kept in names.items() if kept}


def test_the_name_of_a_temporary_file_is_recognised(tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr("os.fsync", lambda _: names.extend(f.name for f in tmp_path.iterdir()))
    write_atomic(tmp_path / "model.json", b"{}")
    assert [is_temporary(name) for name in names] == [True]


def test_a_path_that_is_no_text(tmp_path):
    check_path(tmp_path / "é")
    with pytest.raises(PathError, match=r"run.*udcff: the path is not valid UTF-8"):
        check_path(os.fsdecode(bytes(tmp_path) + b"/run\xff"))
