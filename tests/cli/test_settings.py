"""From the command line to plain settings: no training, no PyTorch."""

from __future__ import annotations

import os

import pytest

from eigenformer.cli import main
from eigenformer.cli.parser import Parser
from eigenformer.cli.settings import settings_of
from eigenformer.cli.train import add_arguments
from eigenformer.config import ConfigError


def _settings(*arguments):
    parser = Parser(allow_abbrev=False)
    add_arguments(parser)
    return settings_of(parser.parse_args([str(argument) for argument in arguments]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model.layers", "4"], {"layers": 4}),
        (["--model.layers=4"], {"layers": 4}),
        (["--model.dropout", "1e-1"], {"dropout": 0.1}),
        (["--model.feature_attention", "true"], {"feature_attention": True}),
        (["--model.feature_attention", "--epochs", "3"], {"feature_attention": True}),
        (["--model.feature_attention=no"], {"feature_attention": False}),
        (["--model.ffn_width", "null"], {"ffn_width": None}),
        (["--model.layers", "null"], {"layers": None}),
        (["--model.psi", "identity"], {"psi": "identity"}),
        (["--model.edge_encoder", "null"], {"edge_encoder": None}),
        (["--model.node_encoder", "{kind: ones}"], {"node_encoder": {"kind": "ones"}}),
        (["--model.node_encoder.sizes", "3", "4"], {"node_encoder": {"sizes": [3, 4]}}),
        (["--model.node_encoder.sizes", "[3, 4]"], {"node_encoder": {"sizes": [3, 4]}}),
    ],
)
def test_any_setting_by_its_dotted_name(arguments, expected):
    assert _settings("zinc", *arguments)["model"] == expected


def test_a_dotted_setting_may_come_before_the_data():
    settings = _settings("--model.layers", "4", "zinc", "--training.betas", "0.8", "0.9")
    assert settings == {
        "data": {"dataset": "zinc"},
        "model": {"layers": 4},
        "training": {"betas": [0.8, 0.9]},
    }


def test_names_of_columns_stay_text():
    settings = _settings("t.csv", "--data.targets", "1", "on", "--data.smiles", "null")
    assert settings["data"] == {"dataset": "t.csv", "targets": ["1", "on"], "smiles": "null"}
    assert _settings("t.csv", "--data.targets", "[1, on]")["data"]["targets"] == ["1", "on"]


def test_file_then_options_then_dotted_names(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("seed: 3\nmodel: {layers: 2, heads: 4}\ntraining: {epochs: 5, batch_size: 8}\n")
    settings = _settings("zinc", "--config", file, "--epochs", "6", "--model.layers", "7")
    assert settings["model"] == {"layers": 7, "heads": 4}
    assert settings["training"] == {"epochs": 6, "batch_size": 8}
    assert settings["seed"] == 3
    settings = _settings("zinc", "--epochs", "6", "--training.epochs", "9")
    assert settings["training"]["epochs"] == 9


def test_other_epochs_than_the_files_scale_its_warm_up(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("training: {epochs: 100, warmup_epochs: 10}\n")
    assert _settings("--config", file, "--epochs", "50")["training"]["warmup_epochs"] == 5
    arguments = ("--epochs", "50", "--training.warmup_epochs", "2")
    assert _settings("--config", file, *arguments)["training"]["warmup_epochs"] == 2
    file.write_text("training: {epochs: 0, warmup_epochs: 10}\n")
    assert _settings("--config", file, "--epochs", "5")["training"]["epochs"] == 5


def test_another_kind_of_encoder_forgets_the_files(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("model: {node_encoder: {kind: embedding, num_types: 5}}\n")
    change = ("--model.node_encoder.kind", "linear", "--model.node_encoder.in_channels", "3")
    model = _settings("--config", file, *change)["model"]
    assert model == {"node_encoder": {"kind": "linear", "in_channels": 3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:\n  layers: 1\n  hiden_dim: 16\n", "line 3: model.hiden_dim: .*'hidden_dim'"),
        ("seed: 0\nmodel:\n  dropout: high\n", "line 3: model.dropout: expected float"),
        ("modle:\n  layers: 1\n", "line 1: modle: unknown; the nearest is 'model'"),
        ("model: 3\n", "line 1: model: expected settings with a 'kind' .*, got 3"),
        ("model:\n  node_encoder:\n    knd: ones\n", "line 3: model.node_encoder.knd: .*'kind'"),
        ("model:\n  psi: sqrt\n", "line 2: model.psi: 'sqrt': unknown"),
    ],
)
def test_mistakes_in_a_file_are_named_with_their_line(tmp_path, text, message):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"c.yaml, {message}"):
        _settings("--config", file)


def test_a_section_given_twice():
    with pytest.raises(ConfigError, match="'node_encoder' is already set as a whole"):
        _settings("--model.node_encoder", "null", "--model.node_encoder.kind", "ones")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "10000"),
        ({"GOMP_SPINCOUNT": "5"}, "5"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, None),
    ],
)
def test_waiting_threads_sleep_soon_unless_the_user_says(
    given: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that what the command sets is undone
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert main(["presets"]) == 0
    assert os.environ.get("GOMP_SPINCOUNT") == expected
