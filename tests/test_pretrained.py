"""The weights that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigenformer import EigenformerRegressor
from eigenformer.config import ConfigError, load_preset
from eigenformer.data.workspace import Workspace
from eigenformer.model_folder import load_model
from eigenformer.pretrained import PRETRAINED, model_folder_of
from eigenformer.reporting import SilentReporter
from eigenformer.training.planning import plan
from eigenformer.training.starting import new_model

SMILES = ["CCO", "CCN", "CCC", "CCCC", "CCCO", "CCCN", "CCCCO", "CCCCN", "CCCCC", "CO", "C", "O"]


class Told(SilentReporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def notice(self, message: str) -> None:
        if "pretrained" in message:
            self.messages.append(message)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    rows = [f"{smiles},{0.5 + len(smiles)},{i % 3 / 2}" for i, smiles in enumerate(SMILES)]
    path.write_text("\n".join(["smiles,size,other", *rows]))
    return path


def planned(table: Path, **wanted: object):
    reporter = Told()
    workspace = Workspace.resolve(cache_dir=table.parent / "cache", reporter=reporter)
    data = {"dataset": str(table), "targets": ["size"], "task": "regression"}
    config, data = plan({"data": data, **wanted}, workspace)
    return config, data, reporter.messages


@pytest.mark.parametrize("name", PRETRAINED)
def test_fits_its_preset_and_knows_no_targets(name):
    model, card = load_model(model_folder_of(name))
    preset = load_preset(name)
    assert (preset.start, card.target, card.calibration) == (name, None, None)
    assert card.architecture == preset.model.replace(out_channels=card.architecture.out_channels)
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_own_molecules_start_from_them(table):
    config, data, messages = planned(table)
    assert (config.start, messages) == ("molecules", [])
    model, _, said = new_model(config, data.target, data.targets("train"))
    theirs, _ = load_model(model_folder_of("molecules"))
    own, given = model.state_dict(), theirs.state_dict()
    assert {k for k in own if not torch.equal(own[k], given[k])} == {
        k for k in own if k.startswith("head")
    }
    assert said == [
        "starting from the pretrained weights 'molecules' (--from none for new ones); "
        "newly initialised: head"
    ]


@pytest.mark.parametrize(
    ("model", "used", "reasons"),
    [
        ({"dropout": 0.3, "head_layers": 3, "pooling": "sum"}, True, []),
        ({"layers": 4}, False, ["they have model.layers 3, not 4"]),
        ({"kind": "gine"}, False, []),
    ],
)
def test_only_if_they_fit(table, model, used, reasons):
    config, data, messages = planned(table, model=model)
    assert config.start == ("molecules" if used else None)
    assert [
        m.removeprefix("the preset's pretrained weights are not used: ") for m in messages
    ] == reasons
    new_model(config, data.target, data.targets("train"))


def test_fine_tuning_has_settings_of_its_own(table):
    preset = load_preset("molecules")
    tuned, new = planned(table)[0].training, planned(table, start="none")[0].training
    assert (tuned.learning_rate, new.learning_rate) == (0.0003, preset.training.learning_rate)
    assert (tuned.average_weights, new.average_weights) == (0.99, 0)
    assert (tuned.epochs, tuned.batch_size) == (new.epochs, new.batch_size)
    asked = planned(table, training={"learning_rate": 0.01})[0].training
    assert (asked.learning_rate, asked.average_weights) == (0.01, 0.99)


def test_none_and_null_are_new_weights(table):
    assert planned(table, start="none")[0].start is None
    assert planned(table, start=None)[0].start is None


def test_asked_for_where_they_do_not_fit(table):
    with pytest.raises(ConfigError, match="do not fit"):
        planned(table, start="molecules", model={"kind": "gine"})


def test_estimators_use_them_unless_told_otherwise():
    fitted = [
        EigenformerRegressor(epochs=1, learning_rate=1e-9, pretrained=used).fit(
            SMILES, [float(len(smiles)) for smiles in SMILES]
        )
        for used in (True, False)
    ]
    theirs, _ = load_model(model_folder_of("molecules"))
    expected = theirs.layers[0].ffn.state_dict()
    near = []
    for estimator in fitted:
        found = estimator.trained_.model.layers[0].ffn.state_dict()
        near.append(all(torch.allclose(found[k], expected[k], atol=1e-5) for k in found))
    assert near == [True, False]
