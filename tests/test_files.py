"""A file is there whole or as it was."""

import pytest

from eigenformer.files import write_atomic


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
