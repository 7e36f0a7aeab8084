from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from eigenformer.config import (
    CategoricalSpec,
    ConfigError,
    EigenformerConfig,
    OnesSpec,
    RunConfig,
    load_preset,
)
from eigenformer.config.settings import alternatives, setting_types

SETTINGS = {"node_encoder": {"kind": "linear", "in_channels": 3}}


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
        ({"attention_backend": "torch"}, "attention_backend: unknown"),
        ({"norm": "batchnorm"}, "norm: 'batchnorm': unknown; the nearest is 'batch_norm'"),
        ({"feed_forward": "mlps"}, "feed_forward: 'mlps': unknown; the nearest is 'mlp'"),
        ({"local_branch": "gin"}, "local_branch: 'gin': unknown; the nearest is 'gine'"),
        ({"norm": "layer_norm", "norm_affine": True}, "norm_affine: only for batch_norm"),
        ({"layers": "12"}, "layers: expected int, got '12'"),
        ({"layers": True}, "layers: expected int, got True"),
        ({"layers": 0}, "layers: must be positive, got 0"),
        ({"dropout": 1.0}, r"dropout: must be in \[0, 1\), got 1.0"),
        ({"hidden_dim": 70}, "hidden_dim: 70 is not a multiple of heads, 8"),
        ({"phi_gain": 0.0}, "phi_gain: must be positive and at most .*, got 0.0"),
        ({"ffn_width": 0}, "ffn_width: must be at least 1"),
        ({"drop_path": 1.0}, r"drop_path: must be in \[0, 1\), got 1.0"),
        ({"filters": 5}, "filters: must be 0 or divide hidden_dim, 72, got 5"),
        ({"filters": -4}, "filters: must be 0 or divide hidden_dim, 72, got -4"),
        ({"filter_width": 0}, "filter_width: must be positive, got 0"),
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
            r"edge_encoder.no_edge_type: 4 is not in \[0, 4\)",
        ),
        (
            {"node_encoder": {"kind": "embedding", "num_types": 4, "no_edge_type": 0}},
            "node_encoder.no_edge_type: only for edge_encoder",
        ),
        ({"node_encoder": {"kind": "categorical", "sizes": 3}}, "sizes: expected a list, got 3"),
        ({"node_encoder": {"kind": "categorical", "sizes": [2, "a"]}}, r"sizes\[1\]: expected int"),
        ({"node_encoder": {"kind": "categorical", "sizes": []}}, "sizes: expected one or more"),
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
    with pytest.raises(ConfigError, match="hiden_dim: unknown; the nearest is 'hidden_dim'"):
        EigenformerConfig(node_encoder=OnesSpec(), hiden_dim=8)


def test_settings_are_copied_and_pickled_as_any_dataclass():
    config = EigenformerConfig(node_encoder=OnesSpec(), layers=2)
    assert copy.deepcopy(config) == config == pickle.loads(pickle.dumps(config))
    assert dataclasses.replace(config, layers=3).layers == 3


def test_numbers_of_numpy_are_numbers():
    config = EigenformerConfig(
        node_encoder=OnesSpec(), layers=np.int64(3), dropout=np.float64(0.1), norm_affine=np.True_
    )
    assert (config.layers, config.dropout, config.norm_affine) == (3, 0.1, True)


def test_the_kind_tells_the_network():
    preset = load_preset("zinc")
    data = {"dataset": "zinc", "kind": "benchmark"}
    values = {"data": data, "preset": "zinc", "training": preset.training.to_dict()}
    model = {**SETTINGS, "kind": "gcn"}
    config = RunConfig.from_dict({**values, "model": model}).model
    assert (config.kind, config.needs) == ("gcn", (False, None))
    assert RunConfig.from_dict({**values, "model": preset.model.to_dict()}).model == preset.model
    with pytest.raises(ConfigError, match="model.kind: 'eigen': unknown; .* 'eigenformer'"):
        RunConfig.from_dict({**values, "model": {**model, "kind": "eigen"}})
    with pytest.raises(ConfigError, match="model: expected settings with a 'kind'"):
        RunConfig.from_dict({**values, "model": SETTINGS})


def test_a_setting_has_one_type_in_all_networks():
    types: dict[str, object] = {}
    for member in alternatives(setting_types(RunConfig)["model"]):
        for name, annotation in setting_types(member).items():
            assert types.setdefault(name, annotation) == annotation or name == "kind"
