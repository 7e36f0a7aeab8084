"""A partial output is continued only if it is what was written; two processes never share one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from eigenformer.training import partial_file
from eigenformer.training.partial_file import PartialFile


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "p.csv"


def left(out: Path, *pieces: tuple[bytes, int]) -> tuple[Path, Path]:
    """What a killed process leaves after a header and pieces of rows."""
    file = PartialFile(out, "key")
    file.append(b"header\n", 0, 0)
    for data, rows in pieces:
        file.append(data, rows, rows)
    file.close()
    return Path(f"{out}.partial"), Path(f"{out}.partial.json")


def continued(out: Path) -> tuple[int, int, bytes]:
    file = PartialFile(out, "key")
    file.close()
    return file.rows, file.predicted, file.partial.read_bytes()


def test_a_file_without_rows_begins_again(out: Path) -> None:
    """The header is written by whoever finds no rows: it must not be there twice."""
    left(out)
    assert continued(out) == (0, 0, b"")


def test_rows_are_continued(out: Path) -> None:
    left(out, (b"a\n", 1), (b"b\nc\n", 2))
    assert continued(out) == (3, 3, b"header\na\nb\nc\n")
    assert continued(out)[0] == 3
    again = PartialFile(out, "key")
    again.append(b"d\n", 1, 0)
    again.close()
    assert continued(out) == (4, 3, b"header\na\nb\nc\nd\n")


def test_altered_content_begins_again(out: Path) -> None:
    partial, _ = left(out, (b"a\n", 1))
    partial.write_bytes(b"header\nz\n")
    assert continued(out) == (0, 0, b"")


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 7},
        {"rows": -1},
        {"rows": "1"},
        {"predicted": 0},
        {"predicted": None},
        {"bytes": -5},
        {"bytes": 3},
        {"bytes": float("-inf")},
        {"bytes": 10**30},
        {"sha256": None},
    ],
)
def test_an_altered_record_begins_again(out: Path, change: dict[str, object]) -> None:
    _, progress = left(out, (b"a\n", 1))
    progress.write_text(json.dumps({**json.loads(progress.read_text()), **change}))
    assert continued(out) == (0, 0, b"")


def test_a_record_that_is_too_deep_begins_again(out: Path) -> None:
    _, progress = left(out, (b"a\n", 1))
    progress.write_text("[" * 100_000)
    assert continued(out) == (0, 0, b"")


def test_a_link_is_not_followed(out: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    Path(f"{out}.partial").symlink_to(other)
    with pytest.raises(OSError, match=r"p\.csv\.partial"):
        PartialFile(out, "key")
    assert other.read_text() == "precious"


def test_temporary_files_of_killed_processes_are_removed(out: Path, tmp_path: Path) -> None:
    name = f".p.csv.partial.json~{os.uname().nodename}~999999999~abc"
    (tmp_path / name).touch()
    PartialFile(out, "key").close()
    assert not (tmp_path / name).exists()


def test_a_file_that_is_finished_meanwhile_is_left_alone(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes its output after it was opened and before it is locked."""
    first, lock = PartialFile(out, "key"), partial_file._lock
    first.append(b"complete\n", 1, 1)

    def finish(*arguments: object) -> None:
        monkeypatch.setattr(partial_file, "_lock", lock)
        first.finish()
        lock(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(partial_file, "_lock", finish)
    second = PartialFile(out, "key")
    assert out.read_bytes() == b"complete\n"
    second.append(b"more\n", 1, 1)
    second.finish()
    assert out.read_bytes() == b"more\n"


def test_the_lock_is_held_until_the_output_has_its_name(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, replace = PartialFile(out, "key"), os.replace
    first.append(b"complete\n", 1, 1)

    def rivalled(*arguments: object) -> None:
        with pytest.raises(ValueError, match="another process is writing it"):
            PartialFile(out, "other")
        replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "replace", rivalled)
    first.finish()
    assert out.read_bytes() == b"complete\n"


def test_a_full_disk_is_one_error(out: Path) -> None:
    file = PartialFile(out, "key")
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, file._stream.fileno())
    os.close(full)
    with pytest.raises(OSError, match=r"No space left on device: '.*p\.csv\.partial'"):
        file.append(b"a\n", 1, 1)
    file.close()  # does not try again
