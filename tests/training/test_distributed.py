"""Two processes do what one does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eigenformer.training.run_folder import RunFolder
from tests.training.samples import SMALL, finish, start, wait_for_epochs

_EXACT = [
    *("--epochs", "2", "--training.freeze_norms_after", "0"),
    *("--model.attention_dropout", "0", "--model.dropout", "0"),
]
_TINY = ["--model.layers", "1", "--model.hidden_dim", "16", "--model.phi_width", "4"]


@pytest.mark.parametrize(
    "task",
    [
        "with features",
        pytest.param("numbers", marks=pytest.mark.slow),
        pytest.param("weighted classes of nodes", marks=pytest.mark.slow),
    ],
)
def test_two_processes_have_the_losses_of_one(table, tmp_path, task):
    data = [table, "--target", "weight", "--batch-size", "16"]
    if task == "with features":  # W_R has a bias without a gradient
        data += ["--model.feature_attention", "true", "--training.average_weights", "0.9"]
    if task == "weighted classes of nodes":  # nine graphs a step: shares of five and four
        data = ["pattern", "--data.size", "40", "--batch-size", "9"]
    rows = {}
    for devices in (1, 2):
        arguments = ["train", *data, "--out", f"run{devices}", "--threads", "1", *_TINY, *_EXACT]
        code, output = finish(*arguments, "--devices", devices, cwd=tmp_path)
        assert code == 0, output
        rows[devices] = RunFolder(tmp_path / f"run{devices}").read_metrics()
        if devices == 2:
            assert "batch norm is not synchronised" in output
    assert len(rows[2]) == 2
    for alone, together in zip(rows[1], rows[2], strict=True):
        assert together == pytest.approx(alone, rel=1e-4)
    summaries = [RunFolder(tmp_path / f"run{n}").read_summary() for n in (1, 2)]
    assert summaries[1]["test_metrics"] == pytest.approx(summaries[0]["test_metrics"], rel=1e-4)
    assert summaries[1]["processes"] == 2


def test_started_by_torchrun_on_data_that_nobody_prepared(table, tmp_path):
    arguments = ["train", table, "--target", "weight", "--out", "run", *SMALL, *_EXACT]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "-m", "eigenformer", *map(str, arguments)],
        cwd=tmp_path,
        env={**os.environ, "EIGENFORMER_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 1/2") == 1
    assert RunFolder(tmp_path / "run").read_summary()["processes"] == 2


def test_started_by_slurm_on_two_machines(table, tmp_path):
    """The script of docs/training.md, with a machine's `srun` replaced by a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    command += ["--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "7"]
    command += ["--local-addr", "127.0.0.1", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    arguments = ["train", table, "--target", "weight", "--out", "run", *SMALL, *_EXACT]
    tasks = [
        subprocess.Popen(
            [*command, "-m", "eigenformer", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, **_slurm(task)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for task in range(2)
    ]
    printed = [task.communicate(timeout=300)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], printed
    assert "".join(printed).count("epoch 1/2") == 1
    assert RunFolder(tmp_path / "run").read_summary()["processes"] == 2


def _slurm(task: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_PROCID": str(task),
        "SLURM_NODEID": str(task),
        "SLURM_LOCALID": "0",
    }


@pytest.mark.skipif(os.name != "posix", reason="needs SIGTERM")
def test_two_processes_end_at_sigterm(table, tmp_path):
    arguments = ["train", table, "--target", "weight", "--out", "run", *SMALL, "--epochs", "5000"]
    process = start(*arguments, "--devices", "2", cwd=tmp_path)
    wait_for_epochs(process, tmp_path / "run", 1)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "--resume run" in output
    assert RunFolder(tmp_path / "run").read_summary()["state"] == "interrupted"


def test_a_loss_that_is_no_number_ends_all_processes(table, tmp_path):
    bad = ["--lr", "1e30", "--training.gradient_clip", "1e30", "--epochs", "4"]
    arguments = ["train", table, "--target", "weight", "--out", "run", *SMALL, *bad]
    code, output = finish(*arguments, "--devices", "2", cwd=tmp_path)
    assert code == 2, output
    assert "the loss is" in output
    assert RunFolder(tmp_path / "run").read_summary()["state"] == "failed"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_a_process_killed_while_training_starts_is_reported(table, tmp_path):
    arguments = ["train", table, "--target", "weight", "--out", "run", *SMALL, "--epochs", "5000"]
    process = start(*arguments, "--devices", "2", cwd=tmp_path)
    child = _child_of(process.pid)
    os.kill(child, signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "process 1 of 2 ended (signal 9)" in output
    assert "Traceback" not in output


def _child_of(parent: int) -> int:
    """The first child that trains, as soon as there is one: others ask Git for a revision."""
    for _ in range(3000):
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if b"LOCAL_RANK=1" in Path(f"/proc/{child}/environ").read_bytes():
                return int(child)
        time.sleep(0.02)
    raise AssertionError("no second process was started")
