"""Stopped in any way, a run goes on as if it had not been stopped: real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from eigenformer.cli import main
from eigenformer.kernels.native import load
from eigenformer.limits import DEFAULT_LIMITS
from eigenformer.model_folder import load_model, save_model, write_card
from eigenformer.training.checkpoint_io import AtomicCheckpointIO
from eigenformer.training.epoch_log import EpochLog
from eigenformer.training.run_folder import RunError, RunFolder
from tests.training.samples import (
    SMALL,
    finish,
    molecule_rows,
    start,
    wait_for_epochs,
    write_table,
)

# Everything that is drawn at random in a step.
_RANDOM = [
    *("--model.dropout", "0.1", "--model.attention_dropout", "0.2"),
    *("--model.frequency_fraction", "0.7", "--epochs", "12"),
    # What a step of the paper's models does not have.
    *("--model.node_potentials", "4", "--model.local_branch", "gine", "--model.head_layers", "2"),
    *("--model.filters", "2", "--model.last_norm", "false"),
    *("--training.recompute_statistics", "2", "--training.initial_bias", "targets"),
    *("--training.average_weights", "0.9", "--model.drop_path", "0.2", "--model.ffn_width", "24"),
]


def _command(table: Path, out: str) -> list[str]:
    return ["train", str(table), "--target", "weight", "--out", out, *SMALL, *_RANDOM]


@pytest.fixture(scope="module")
def unstopped(table, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unstopped")
    code, output = finish(*_command(table, "run"), cwd=folder)
    assert code == 0, output
    return folder / "run"


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_killed_and_resumed_ends_with_the_same_bits(unstopped, table, tmp_path):
    process = start(*_command(table, "run"), cwd=tmp_path)
    wait_for_epochs(process, tmp_path / "run", 2)
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


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_run_of_an_older_version_goes_on_with_its_own_backend(unstopped, table, tmp_path):
    """When the backend was part of the model, ``config.yaml`` said so there."""
    command = [*_command(table, "run"), "--backend", "torch"]
    (tmp_path / "whole").mkdir()
    assert finish(*command, cwd=tmp_path / "whole")[0] == 0
    process = start(*command, cwd=tmp_path)
    wait_for_epochs(process, tmp_path / "run", 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    file = tmp_path / "run" / "config.yaml"
    settings = yaml.safe_load(file.read_text())
    settings["model"]["attention_backend"] = settings.pop("backend")
    file.write_text(yaml.safe_dump(settings))
    code, output = finish("train", "--resume", "run", cwd=tmp_path)
    assert code == 0, output
    for name in ("model.safetensors", "model.json", "metrics.csv"):
        found = (tmp_path / "run" / name).read_bytes()
        assert found == (tmp_path / "whole" / "run" / name).read_bytes(), name
    if load()[0] is not None:  # otherwise, the default is the same backend
        assert found != (unstopped / "metrics.csv").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_checkpoint_of_an_earlier_version_is_resumed_to_the_same_bits(unstopped, table, tmp_path):
    process = start(*_command(table, "run"), cwd=tmp_path)
    wait_for_epochs(process, tmp_path / "run", 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    checkpoint = tmp_path / "run" / "last.ckpt"
    torch.save(AtomicCheckpointIO().load_checkpoint(checkpoint), checkpoint)
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    for name in ("model.safetensors", "metrics.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (unstopped / name).read_bytes(), name


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


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_ctrl_c_leaves_a_usable_folder(unstopped, table, tmp_path, number):
    process = start(*_command(table, "run"), cwd=tmp_path)
    out = tmp_path / "run"
    wait_for_epochs(process, out, 1)
    process.send_signal(signal.Signals[number])
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "--resume run" in output
    stopped = RunFolder(out).read_summary()
    assert (stopped["state"], stopped["earlier"]) == ("interrupted", [])
    assert main(["evaluate", str(out)]) == 0
    assert main(["train", "--resume", str(out)]) == 0
    (part,) = RunFolder(out).read_summary()["earlier"]
    assert part == {name: stopped[name] for name in ("started", "git_revision", "epochs")}
    assert (out / "model.safetensors").read_bytes() == (
        unstopped / "model.safetensors"
    ).read_bytes()


def test_a_finished_run_resumes_to_itself(run, capsys):
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    assert main(["train", "--resume", str(run)]) == 0
    assert before == {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    out = capsys.readouterr().out
    assert "the run is already finished" in out
    assert "epoch 1/" not in out


def test_a_run_that_stopped_early_stays_finished(table, tmp_path, capsys):
    out = tmp_path / "run"
    more = ["--epochs", "40", "--patience", "2", "--lr", "1e-12"]
    assert main(["train", str(table), "--target", "weight", "--out", str(out), *SMALL, *more]) == 0
    epochs = RunFolder(out).read_summary()["epochs"]
    assert epochs < 40
    assert main(["train", "--resume", str(out)]) == 0
    assert RunFolder(out).read_summary()["epochs"] == epochs


def test_a_fine_tuned_run_goes_on_without_the_model_it_started_from(run, table, tmp_path):
    """Its own weights are in the checkpoint, its standardisation is in its card."""
    import shutil

    source, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(run, source)
    more = ["--from", str(source), "--out", str(out), *SMALL]
    assert main(["train", str(table), "--target", "weight", *more]) == 0
    weights = (out / "model.safetensors").read_bytes()
    RunFolder(out).write_summary({**RunFolder(out).read_summary(), "state": "running"})
    shutil.rmtree(source)
    assert main(["train", "--resume", str(out)]) == 0
    assert (out / "model.safetensors").read_bytes() == weights


def test_data_that_changed_since(table, tmp_path, capsys):
    import shutil

    copy, out = tmp_path / "t.csv", tmp_path / "run"
    shutil.copy(table, copy)
    assert main(["train", str(copy), "--target", "weight", "--out", str(out), *SMALL]) == 0
    with copy.open("a", encoding="utf-8") as stream:
        stream.writelines(line for line in table.read_text().splitlines(True)[1:20])
    assert main(["train", "--resume", str(out)]) == 2
    assert "the data has changed" in capsys.readouterr().err


@pytest.mark.parametrize("changed", ["targets", "structure"])
def test_as_many_graphs_with_other_contents(table, tmp_path, capsys, changed):
    """Resuming would mix two data sets; ``evaluate`` says that they differ."""
    copy, out = tmp_path / "t.csv", tmp_path / "run"
    rows = molecule_rows()
    write_table(copy, rows)
    assert main(["train", str(copy), "--target", "weight", "--out", str(out), *SMALL]) == 0
    assert main(["evaluate", str(out)]) == 0
    assert "has changed" not in capsys.readouterr().err
    _killed(out)
    key, value = ("weight", 0.5) if changed == "targets" else ("smiles", "CCCCBr")
    write_table(copy, [{**rows[0], key: value}, *rows[1:]])
    assert main(["train", "--resume", str(out)]) == 2
    assert "the data has changed since the run started" in capsys.readouterr().err
    assert main(["evaluate", str(out)]) == 0
    assert "has changed since the model was trained" in capsys.readouterr().err
    _, card = load_model(out)
    write_card(out, card.replace(data_digest=None))  # as earlier versions wrote it
    assert main(["train", "--resume", str(out)]) == 0


def test_a_run_stopped_before_its_first_checkpoint_starts_again(unstopped, table, tmp_path):
    out = tmp_path / "run"
    assert main(_command(table, str(out))) == 0
    for name in ("last.ckpt", "summary.json"):
        (out / name).unlink()
    assert main(["train", "--resume", str(out)]) == 0
    assert (out / "metrics.csv").read_bytes() == (unstopped / "metrics.csv").read_bytes()


def test_damaged_weights_are_found_before_training_goes_on(run, tmp_path, capsys):
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 0xFF
    (copy / "model.safetensors").write_bytes(data)
    assert main(["train", "--resume", str(copy)]) == 2
    captured = capsys.readouterr()
    assert "its checksum does not match" in captured.err
    assert "epoch" not in captured.out


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


def _killed(run: Path) -> None:
    """Makes a finished run one that was killed before its test."""
    folder = RunFolder(run)
    folder.write_summary({**folder.read_summary(), "state": "running", "test": None})


def _train(table: Path, out: Path, monkeypatch, best: str) -> dict[str, bytes]:
    """A run whose best epoch is its first or its last, and its files."""
    monkeypatch.setattr(
        "eigenformer.training.epoch_log.EpochLog._is_better",
        lambda log, *_: best == "last" or not log.best_epoch,
    )
    assert main(["train", str(table), "--target", "weight", "--out", str(out), *SMALL]) == 0
    names = ("model.safetensors", "model.json", "metrics.csv")
    return {name: (out / name).read_bytes() for name in names}


def test_an_early_stop_holds_if_the_run_is_killed_before_its_test(table, tmp_path):
    out = tmp_path / "run"
    more = ["--epochs", "40", "--patience", "2", "--lr", "1e-12"]
    assert main(["train", str(table), "--target", "weight", "--out", str(out), *SMALL, *more]) == 0
    before = RunFolder(out).read_summary()
    _killed(out)
    assert main(["train", "--resume", str(out)]) == 0
    after = RunFolder(out).read_summary()
    assert [after[n] for n in ("epochs", "test")] == [before[n] for n in ("epochs", "test")]


def test_files_that_a_killed_run_did_not_write_come_from_the_checkpoint(
    table, tmp_path, monkeypatch
):
    """Killed after the checkpoint of an epoch: no weights, no row."""
    out = tmp_path / "run"
    files = _train(table, out, monkeypatch, "last")
    test = RunFolder(out).read_summary()["test"]
    _killed(out)
    RunFolder(out).write_metrics(RunFolder(out).read_metrics()[:-1])
    model, card = load_model(out)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_model(out, model, card.replace(epoch=2))
    assert main(["train", "--resume", str(out)]) == 0
    assert files == {name: (out / name).read_bytes() for name in files}
    assert RunFolder(out).read_summary()["test"] == test


def test_other_weights_than_the_best_are_never_tested(table, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    _train(table, out, monkeypatch, "first")
    _killed(out)
    model, card = load_model(out)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_model(out, model, card)
    assert main(["train", "--resume", str(out)]) == 2
    assert "model.safetensors is not from epoch 1, the best one" in capsys.readouterr().err


def test_weights_that_change_during_the_last_epoch_are_noticed_before_the_test(
    table, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "run"
    _train(table, out, monkeypatch, "first")
    data = SimpleNamespace(limits=DEFAULT_LIMITS)
    log = EpochLog(writer=SimpleNamespace(folder=RunFolder(out), data=data))
    log.best_epoch, log.best_weights = 1, "of another process"
    with pytest.raises(RunError, match="not from epoch 1"):
        log.check_best()
    monkeypatch.setattr(EpochLog, "check_best", lambda log: (_ for _ in ()).throw(RunError("no")))
    _killed(out)
    RunFolder(out).checkpoint.unlink()  # trained again, and stopped right before the test
    assert main(["train", "--resume", str(out)]) == 2
    assert "train: no" in capsys.readouterr().err
