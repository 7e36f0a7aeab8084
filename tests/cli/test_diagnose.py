"""``eigenformer diagnose``, end to end."""

from __future__ import annotations

import pytest

from eigenformer.cli import main
from tests.training.samples import SMALL


def test_a_run_beside_an_untrained_model(table, tmp_path, capsys):
    run = str(tmp_path / "run")
    train = ["train", str(table), "--target", "weight", "--preset", "zinc", *SMALL, "--out", run]
    assert main(train) == 0
    assert main(["diagnose", run, "--limit", "5"]) == 0
    printed = capsys.readouterr().out
    assert "| layer | entropy | sharpest head |" in printed
    assert "| head | " in printed
    assert "layers: 5 graphs of train; gradients: " in printed
    assert "most heads still have the nearly uniform attention" in printed
    assert "a --model.phi_gain above 1" in printed


def test_mistakes_are_told(run, tmp_path, capsys):
    assert main(["diagnose", str(run), "--limit", "1"]) == 2
    assert "--limit: must be at least 2, got 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["diagnose", str(run), "--threads", "0"])
    assert "--threads: expected a positive integer, got '0'" in capsys.readouterr().err
    assert main(["diagnose", str(run), "--split", "tran"]) == 2
    assert "'train'" in capsys.readouterr().err
    assert main(["diagnose", str(tmp_path)]) == 2


def test_a_network_without_attention(table, tmp_path, capsys):
    kind = "--model.kind gine --model.layers 2 --model.hidden_dim 16 --epochs 1"
    train = ["train", str(table), "--target", "weight", *kind.split(), "--out", str(tmp_path)]
    assert main(train) == 0
    assert main(["diagnose", str(tmp_path), "--limit", "5"]) == 0
    printed = capsys.readouterr().out
    assert "| layers.0.norm | " in printed
    assert "| node encoder | " in printed
    assert "batch norms: 5 graphs of train; gradients: " in printed
    assert "gine: no spectrum-aware attention" in printed
