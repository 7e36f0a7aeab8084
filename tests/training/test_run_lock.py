"""One process per run folder."""

from __future__ import annotations

import json
import os
import platform
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.training.run_folder import RunError, RunFolder
from eigenformer.training.run_lock import run_lock
from tests.training.samples import SMALL

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and SIGKILL")


@contextmanager
def held_by_another(folder: Path) -> Iterator[int]:
    """A process that holds the folder until it is killed."""
    ready, told = os.pipe()
    process = os.fork()
    if not process:
        with run_lock(folder):
            os.write(told, b"!")
            signal.pause()
        os._exit(0)
    os.read(ready, 1)
    try:
        yield process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def test_the_second_process_is_told_who_the_first_is(tmp_path):
    with held_by_another(tmp_path) as process:
        match = f"in use by process {process} on {platform.node()}"
        with pytest.raises(RunError, match=match), run_lock(tmp_path):
            pass


def test_a_killed_process_holds_nothing_and_leaves_nothing(tmp_path):
    with held_by_another(tmp_path):
        pass
    (tmp_path / ".last.ckpt~machine~17~x8_2kfpa").write_bytes(b"half of it")
    (tmp_path / "notes~").write_text("the user's own")
    with run_lock(tmp_path):
        assert json.loads((tmp_path / ".running.json").read_text())["process"] == os.getpid()
    assert {file.name for file in tmp_path.iterdir()} == {".lock", "notes~"}


def test_two_trainings_of_one_run(run, table, tmp_path, capsys):
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    with held_by_another(run):
        assert main(["train", "--resume", str(run)]) == 2
        assert "in use by process" in capsys.readouterr().err
        (run / ".running.json").unlink()
    assert before == {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    new = tmp_path / "new"
    new.mkdir()
    with held_by_another(new):
        assert main(["train", str(table), "--target", "weight", "--out", str(new), *SMALL]) == 2
        assert "in use by process" in capsys.readouterr().err


def test_a_folder_that_was_killed_before_it_had_settings_can_be_started(table, tmp_path):
    with held_by_another(tmp_path):
        pass
    (tmp_path / ".config.yaml~machine~17~x8_2kfpa").write_bytes(b"seed: ")
    arguments = ["--target", "weight", "--out", str(tmp_path), *SMALL, "--epochs", "1"]
    assert main(["train", str(table), *arguments]) == 0
    assert RunFolder(tmp_path).read_summary()["state"] == "finished"
    assert not [file.name for file in tmp_path.iterdir() if "~" in file.name]
