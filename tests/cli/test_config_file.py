"""A settings file whose dataset or network is overridden by an option."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenformer.cli import main
from eigenformer.training.run_folder import RunFolder

TINY = ["--epochs", "1", "--batch-size", "16", "--threads", "1"]


@pytest.fixture(scope="module")
def benchmark_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a benchmark of nodes."""
    out = tmp_path_factory.mktemp("benchmark") / "run"
    size = ["--model.layers", "1", "--model.hidden_dim", "16", "--model.dropout", "0.1"]
    size += ["--data.size", "12"]
    assert main(["train", "pattern", "--out", str(out), *size, *TINY]) == 0
    return out


def test_another_network_keeps_what_all_networks_have(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = run / "config.yaml", tmp_path / "other"
    command = ["train", "--config", str(file), "--model.kind", "gine"]
    assert main([*command, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    notice = next(line for line in printed.err.splitlines() if line.startswith(f"{file}: these"))
    assert "model.phi_width" in notice
    assert "model.heads" in notice  # a number of heads means something else there
    assert "model.layers" not in notice
    before, after = (RunFolder(folder).read_config() for folder in (run, out))
    assert after.model.kind == "gine"
    for name in ("layers", "hidden_dim", "dropout", "pooling", "node_encoder", "edge_encoder"):
        assert getattr(after.model, name) == getattr(before.model, name), name
    assert after.training == before.training
    assert "model: gine, preset molecules" in printed.out


def test_other_data_have_their_own_encoders(
    benchmark_run: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = benchmark_run / "config.yaml", tmp_path / "own"
    command = ["train", str(table), "--target", "weight", "--config", str(file)]
    assert main([*command, "--out", str(out)]) == 0
    notice = capsys.readouterr().err
    for name in ("data.size", "model.node_encoder", "model.out_channels", "model.pooling"):
        assert name in notice
    assert "model.layers" not in notice
    config = RunFolder(out).read_config()
    assert config.model.node_encoder.kind == "categorical"
    assert (config.model.layers, config.model.dropout) == (1, 0.1)
    assert config.data.dataset == str(table)


def test_a_benchmark_takes_no_columns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "pattern", "--config", str(run / "config.yaml"), "--preset", "pattern"]
    assert main([*command, "--data.size", "2", "--out", "never"]) == 2
    notice, error = capsys.readouterr().err.splitlines()
    assert "data.targets" in notice
    assert "data.smiles" not in notice  # nobody misses a default
    assert "size: needs at least 3 graphs" in error


def test_other_targets_have_their_own_outputs(
    run: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "config.yaml"
    for number, options in enumerate((["--target", "long"], ["--task", "multiclass"])):
        out = tmp_path / str(number)
        command = ["train", str(table), *options, "--config", str(file), "--limit", "20"]
        assert main([*command, "--out", str(out)]) == 0
        notice = capsys.readouterr().err
        assert "model.out_channels" in notice
        assert "training.loss" in notice
    assert RunFolder(out).read_config().model.out_channels > 1


def test_a_backend_in_the_file_is_for_its_own_network(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    text = (run / "config.yaml").read_text("utf-8")
    file.write_text(text.replace("backend: auto", "backend: torch"), "utf-8")
    command = ["train", "--config", str(file), "--model.kind", "gine"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err.strip().endswith(", backend")


def test_the_same_data_keep_everything(
    run: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.chdir(table.parent)
    command = ["train", table.name, "--config", str(run / "config.yaml"), "--seed", "1"]
    command += ["--data.split_seed", "0"]
    assert main([*command, "--out", str(tmp_path / "again")]) == 0
    assert "not used" not in capsys.readouterr().err
    before, after = (RunFolder(f).read_config() for f in (run, tmp_path / "again"))
    assert after.replace(seed=before.seed) == before
