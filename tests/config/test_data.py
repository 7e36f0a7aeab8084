"""Settings of data: one kind each for benchmarks and for the user's own data."""

from __future__ import annotations

from dataclasses import fields

import pytest

from eigenformer.config import (
    BenchmarkData,
    ConfigError,
    InputFormat,
    OwnData,
    ReadOptions,
    RunConfig,
    SplitOptions,
    load_preset,
)
from eigenformer.config.data import with_kind
from eigenformer.config.old_formats import upgrade_card, upgrade_run
from eigenformer.data.benchmarks import data_settings

# All fields that settings of data had when there was one kind of them.
OLD = {
    "dataset": "zinc",
    "smiles": "smiles",
    "targets": [],
    "task": None,
    "metric": None,
    "split_by": None,
    "split_column": None,
    "fractions": [0.8, 0.1, 0.1],
    "split_seed": 0,
    "featurizer": "ogb",
    "undirected": False,
    "max_bad_rows": 0.05,
    "limit": None,
    "size": None,
    "generator_seed": 0,
    "official": False,
    "frequencies": 3,
}


def test_the_name_tells_the_kind() -> None:
    assert data_settings({"dataset": "zinc"}) == {"dataset": "zinc", "kind": "benchmark"}
    for path in ("./zinc", "/data/zinc", "mine.csv"):
        assert data_settings({"dataset": path})["kind"] == "own"
    assert data_settings({"limit": 3}) == {"limit": 3}
    own = {"dataset": "zinc", "kind": "own"}
    assert data_settings(own) == own


def test_settings_of_the_other_kind() -> None:
    with pytest.raises(ConfigError, match=r"data\.targets: for your own data; 'zinc' is a bench"):
        with_kind({"dataset": "zinc", "targets": ["y"]}, ["zinc"])
    with pytest.raises(ConfigError, match=r"data\.size: for pattern and cluster only"):
        with_kind({"dataset": "mine.csv", "size": 3}, ["zinc"])
    kept = with_kind({"dataset": "zinc", "targets": [], "fractions": [0.8, 0.1, 0.1]}, ["zinc"])
    assert kept == {"dataset": "zinc", "kind": "benchmark"}


def test_a_run_of_an_older_version() -> None:
    preset = load_preset("zinc")
    values = RunConfig(BenchmarkData("zinc"), "zinc", preset.model, preset.training).to_dict()
    config = RunConfig.from_dict(upgrade_run({**values, "data": OLD}))
    assert config.data == BenchmarkData("zinc", num_frequencies=3)
    own = {**OLD, "dataset": "/data/zinc", "targets": ["y"]}
    data = RunConfig.from_dict(upgrade_run({**values, "data": own})).data
    own = {"targets": ("y",), "num_frequencies": 3, "featurizer": "ogb"}
    assert data == OwnData(dataset="/data/zinc", **own)
    assert upgrade_run({"data": {"limit": 3}}) == {"data": {"limit": 3}}


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "benchmark"),
        ({"data": {**OLD, "targets": ["y"]}}, "own"),
        ({"node_features": ["mass"]}, "own"),
        ({"preset": "mnist"}, "own"),
        ({"encoder": {"kind": "ones"}}, "own"),
        ({"data": {**OLD, "dataset": "mine"}}, "own"),
    ],
)
def test_a_model_of_an_older_version_that_was_given_away(changes, kind) -> None:
    model = load_preset("zinc").model.to_dict()
    changes = dict(changes)
    if "encoder" in changes:
        model["node_encoder"] = changes.pop("encoder")
    card = {"architecture": model, "data": OLD, "preset": "zinc", "format": 1, **changes}
    upgraded = upgrade_card(card)
    assert upgraded["data"]["kind"] == kind
    zinc = kind == "benchmark"
    assert upgraded["input_format"]["featurizer"] == ("zinc" if zinc else "ogb")
    assert upgraded["input_format"]["unknown_type"] == (21 if zinc else None)
    assert upgraded["input_format"]["num_frequencies"] == 3


def test_the_run_beside_a_model_knows_best() -> None:
    model = load_preset("zinc").model.to_dict()
    card = {"architecture": model, "data": OLD, "preset": "zinc", "format": 1}
    upgraded = upgrade_card(card, {"data": {**OLD, "dataset": "/data/zinc"}})
    assert upgraded["data"]["kind"] == "own"


def test_own_data_says_how_it_is_read_and_split() -> None:
    config = OwnData(dataset="m.csv", targets=("y",), split_by="random", split_seed=3)
    assert config.reading() == ReadOptions(targets=("y",))
    assert config.splitting() == SplitOptions("random", split_seed=3)
    assert config.name == "m"
    shared = {f.name: f.type for f in fields(OwnData)}
    for field in fields(BenchmarkData):  # one name, one type: options are made from them
        assert field.name == "kind" or shared.get(field.name, field.type) == field.type


def test_the_input_of_a_model_has_frequencies():
    with pytest.raises(ConfigError, match="num_frequencies: must be at least 1, got -1"):
        InputFormat.from_dict({"num_frequencies": -1})
