"""Stopped in any way, a run goes on as if it had not been stopped: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, finish, start

# Everything that is drawn at random in a step.
_RANDOM = [
    *("--model.dropout", "0.1", "--model.attention_dropout", "0.2"),
    *("--model.frequency_fraction", "0.7", "--epochs", "12"),
]


def _command(table: Path, out: str) -> list[str]:
    return ["train", str(table), "--target", "weight", "--out", out, *SMALL, *_RANDOM]


def _wait_for_epochs(process: subprocess.Popen[str], out: Path, epochs: int) -> None:
    for _ in range(3000):
        if (out / "metrics.csv").exists() and len(RunFolder(out).read_metrics()) >= epochs:
            return
        assert process.poll() is None, process.stdout.read()  # type: ignore[union-attr]
        time.sleep(0.02)
    raise AssertionError("no epoch was finished")


@pytest.fixture(scope="module")
def unstopped(table, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unstopped")
    code, output = finish(*_command(table, "run"), cwd=folder)
    assert code == 0, output
    return folder / "run"


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_and_resumed_ends_with_the_same_bits(unstopped, table, tmp_path):
    process = start(*_command(table, "run"), cwd=tmp_path)
    _wait_for_epochs(process, tmp_path / "run", 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = len(RunFolder(tmp_path / "run").read_metrics())
    assert 2 <= done < 12
    code, output = finish("train", "--resume", "run", cwd=tmp_path)
    assert code == 0, output
    assert "epoch 12/12" in output
    assert "epoch  1/12" not in output
    for name in ("model.safetensors", "metrics.csv", "model.json", "config.yaml"):
        assert (tmp_path / "run" / name).read_bytes() == (unstopped / name).read_bytes(), name
    summaries = [RunFolder(p).read_summary() for p in (tmp_path / "run", unstopped)]
    assert summaries[0]["test"] == summaries[1]["test"]
    assert summaries[0]["epochs"] == 12


def test_the_same_command_twice_gives_the_same_metrics(unstopped, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(_command(table, "again")) == 0
    for name in ("metrics.csv", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (unstopped / name).read_bytes(), name


def test_another_seed_gives_other_metrics(unstopped, table, tmp_path):
    out = tmp_path / "other"
    assert main([*_command(table, str(out)), "--seed", "1"]) == 0
    assert (out / "metrics.csv").read_text() != (unstopped / "metrics.csv").read_text()


def test_config_repeats_the_run(unstopped, tmp_path):
    out = tmp_path / "repeated"
    assert main(["train", "--config", str(unstopped / "config.yaml"), "--out", str(out)]) == 0
    assert (out / "metrics.csv").read_bytes() == (unstopped / "metrics.csv").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_ctrl_c_leaves_a_usable_folder(unstopped, table, tmp_path):
    process = start(*_command(table, "run"), cwd=tmp_path)
    out = tmp_path / "run"
    _wait_for_epochs(process, out, 1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "--resume run" in output
    assert RunFolder(out).read_summary()["state"] == "interrupted"
    assert main(["evaluate", str(out)]) == 0
    assert main(["train", "--resume", str(out)]) == 0
    assert (out / "model.safetensors").read_bytes() == (
        unstopped / "model.safetensors"
    ).read_bytes()


def test_a_finished_run_resumes_to_itself(run, capsys):
    before = (run / "model.safetensors").read_bytes()
    assert main(["train", "--resume", str(run)]) == 0
    assert (run / "model.safetensors").read_bytes() == before
    assert "epoch" not in capsys.readouterr().out.split("best epoch")[0].split("run folder")[1]


def test_a_run_without_a_checkpoint_starts_again(unstopped, table, tmp_path):
    out = tmp_path / "run"
    assert main(_command(table, str(out))) == 0
    (out / "last.ckpt").unlink()
    assert main(["train", "--resume", str(out)]) == 0
    assert (out / "metrics.csv").read_bytes() == (unstopped / "metrics.csv").read_bytes()


@pytest.mark.parametrize("damage", ["truncated", "altered", "not a checkpoint"])
def test_a_damaged_checkpoint_is_an_error_and_nothing_is_lost(run, tmp_path, capsys, damage):
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    data = bytearray((copy / "last.ckpt").read_bytes())
    if damage == "truncated":
        data = data[: len(data) // 2]
    elif damage == "altered":
        data[len(data) // 2] ^= 0xFF
    else:
        data = bytearray(b"hello")
    (copy / "last.ckpt").write_bytes(data)
    before = {file.name: file.read_bytes() for file in copy.iterdir() if file.is_file()}
    assert main(["train", "--resume", str(copy)]) == 2
    error = capsys.readouterr().err
    assert "last.ckpt: damaged" in error
    assert "Traceback" not in error
    assert before == {file.name: file.read_bytes() for file in copy.iterdir() if file.is_file()}
    assert main(["evaluate", str(copy)]) == 0
