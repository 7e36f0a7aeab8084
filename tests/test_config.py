from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from eigenformer import EigenformerConfig, load_preset, presets
from eigenformer.config import (
    CategoricalSpec,
    ConfigError,
    EmbeddingSpec,
    LinearSpec,
    OnesSpec,
    Preset,
)

SETTINGS = {"node_encoder": {"kind": "linear", "in_channels": 3}}


def test_there_are_fourteen_presets():
    assert len(presets()) == 14
    for name in presets():
        preset = load_preset(name)
        assert preset.name == name
        assert preset.dataset == name.removesuffix("-feat")
        assert preset.model.feature_attention == name.endswith("-feat")
        assert Preset.from_dict(preset.to_dict()) == preset


def test_presets_hold_the_papers_tables():
    zinc = load_preset("zinc-feat")
    assert zinc.model.node_encoder == EmbeddingSpec(22)
    assert zinc.model.edge_encoder == EmbeddingSpec(4, no_edge_type=0)
    assert (zinc.model.psi, zinc.model.attention_dropout, zinc.model.pooling) == (
        "signed_sqrt",
        0.2,
        "sum",
    )
    assert (zinc.training.batch_size, zinc.training.epochs) == (512, 2000)
    assert zinc.training.betas == (0.9, 0.99)
    assert load_preset("cifar10-feat").model.psi == "identity"
    assert load_preset("cluster").model.edge_encoder == OnesSpec()
    assert load_preset("cluster-feat").model.edge_encoder is None
    assert load_preset("peptides-func").model.edge_encoder == LinearSpec(3, bias=False)


def test_round_trip():
    config = EigenformerConfig(
        node_encoder=CategoricalSpec((3, 4)), edge_encoder=OnesSpec(), layers=2, pooling="sum"
    )
    assert EigenformerConfig.from_dict(config.to_dict()) == config
    assert config.replace(layers=5).layers == 5
    assert config.layers == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hiden_dim": 8}, "hiden_dim: unknown; the nearest is 'hidden_dim'"),
        ({"pooling": "summ"}, "pooling: 'summ': unknown; the nearest is 'sum'"),
        ({"attention_backend": "litteral"}, "the nearest is 'literal'"),
        ({"layers": "12"}, "layers: expected int, got '12'"),
        ({"layers": True}, "layers: expected int, got True"),
        ({"layers": 0}, "layers: must be positive, got 0"),
        ({"dropout": 1.0}, r"dropout: must be in \[0, 1\), got 1.0"),
        ({"hidden_dim": 70}, "hidden_dim: 70 is not a multiple of heads, 8"),
        ({"ffn_width": 0}, "ffn_width: must be at least 1"),
        ({"frequency_fraction": 0.0}, r"frequency_fraction: must be in \(0, 1\]"),
        ({"norm_shared": True}, "norm_shared: there is nothing to share without norm_affine"),
        ({"node_encoder": {"in_channels": 3}}, "node_encoder: expected settings with a 'kind'"),
        ({"node_encoder": {"kind": "linnear"}}, "node_encoder.kind: 'linnear': .*'linear'"),
        ({"node_encoder": {"kind": "linear"}}, "node_encoder.in_channels: missing"),
        (
            {"node_encoder": {"kind": "linear", "in_channels": -1}},
            "node_encoder.in_channels: must be positive",
        ),
        (
            {"node_encoder": {"kind": "linear", "in_chanels": 3}},
            "node_encoder.in_chanels: unknown; the nearest is 'in_channels'",
        ),
        (
            {"edge_encoder": {"kind": "embedding", "num_types": 4, "no_edge_type": 4}},
            "edge_encoder.no_edge_type: 4 is not a type below 4",
        ),
        (
            {"node_encoder": {"kind": "embedding", "num_types": 4, "no_edge_type": 0}},
            "node_encoder.no_edge_type: only edges have one",
        ),
        ({"node_encoder": {"kind": "categorical", "sizes": 3}}, "sizes: expected a list, got 3"),
        ({"node_encoder": {"kind": "categorical", "sizes": [2, "a"]}}, r"sizes\[1\]: expected int"),
        ({"node_encoder": {"kind": "categorical", "sizes": []}}, "sizes: needs at least one"),
    ],
)
def test_errors_name_the_setting(change, message):
    with pytest.raises(ConfigError, match=message):
        EigenformerConfig.from_dict({**SETTINGS, **change})


def test_errors_name_the_whole_path():
    with pytest.raises(ConfigError, match="^model.layers: expected int"):
        EigenformerConfig.from_dict({**SETTINGS, "layers": 1.5}, path="model")
    with pytest.raises(ConfigError, match="^model.node_encoder: missing"):
        EigenformerConfig.from_dict({}, path="model")
    with pytest.raises(ConfigError, match="^model.layers: must be positive"):
        EigenformerConfig.from_dict({**SETTINGS, "layers": -1}, path="model")


def test_direct_construction_is_checked_too():
    with pytest.raises(ConfigError, match="pooling: 'max': unknown"):
        EigenformerConfig(node_encoder=OnesSpec(), pooling="max")


def test_numbers_of_numpy_are_numbers():
    config = EigenformerConfig(
        node_encoder=OnesSpec(), layers=np.int64(3), dropout=np.float64(0.1), norm_affine=np.True_
    )
    assert (config.layers, config.dropout, config.norm_affine) == (3, 0.1, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"betas": [0.9, 1.5]}, r"betas: takes two numbers in \[0, 1\)"),
        ({"learning_rate": float("nan")}, "learning_rate: must be positive"),
        ({"learning_rate": float("inf")}, "learning_rate: must be positive"),
        ({"warmup_epochs": 3000}, "warmup_epochs: 3000 of 2000 epochs"),
        ({"weight_decay": -1.0}, "weight_decay: must not be negative"),
    ],
)
def test_impossible_training(change, message):
    with pytest.raises(ConfigError, match=message):
        load_preset("zinc").training.replace(**change)


def test_unknown_preset():
    with pytest.raises(ConfigError, match="preset 'zink': unknown; the nearest is 'zinc'"):
        load_preset("zink")


@pytest.mark.parametrize("statement", ["import eigenformer", "import eigenformer.config"])
def test_pytorch_is_not_loaded_until_needed(statement):
    code = f"{statement}; import sys; assert 'torch' not in sys.modules; eigenformer.presets()"
    code += "; assert 'torch' not in sys.modules; eigenformer.ScalarMLP; import torch"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names():
    import eigenformer

    for name in eigenformer.__all__:
        assert getattr(eigenformer, name).__name__ == name
    assert set(eigenformer.__all__) <= set(dir(eigenformer))
    with pytest.raises(AttributeError, match="'Eigenfromer'"):
        _ = eigenformer.Eigenfromer


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "+1e-4", "0.0001"])
def test_numbers_in_yaml(text):
    from eigenformer.config import parse_yaml

    assert parse_yaml(f"rate: {text}") == {"rate": 1e-4}
    assert parse_yaml("name: 1e-4x") == {"name": "1e-4x"}
