from __future__ import annotations

import json
import pickle

import pytest
import torch

from eigenformer import Eigenformer
from eigenformer.model_folder import ModelCard, ModelFolderError, load_model, save_model
from eigenformer.targets import NumberTarget
from tests.graphs import random_batch, small_config


@pytest.mark.parametrize("changes", [{}, {"norm_affine": True, "norm_shared": True}])
def test_a_saved_model_predicts_the_same(tmp_path, changes):
    model = Eigenformer(small_config(**changes))
    batch = random_batch([5, 9])
    model(batch)  # running statistics of their own
    model.eval()
    model.save(tmp_path / "model")
    loaded = Eigenformer.load(tmp_path / "model")
    assert loaded.config == model.config
    assert not loaded.training
    assert torch.equal(loaded(batch), model(batch))
    assert loaded.num_parameters() == model.num_parameters()


def test_the_same_weights_give_the_same_file(tmp_path):
    model = Eigenformer(small_config())
    for name in ("a", "b"):
        model.save(tmp_path / name)
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]


def test_loading_never_unpickles(tmp_path, monkeypatch):
    Eigenformer(small_config()).save(tmp_path)

    def forbidden(*_args, **_kwargs):
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "Unpickler", forbidden)
    monkeypatch.setattr(pickle, "loads", forbidden)
    monkeypatch.setattr(torch, "load", forbidden)
    load_model(tmp_path)


def test_an_altered_file_is_an_error(tmp_path):
    Eigenformer(small_config()).save(tmp_path)
    file = tmp_path / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(ModelFolderError, match="checksum"):
        Eigenformer.load(tmp_path)
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelFolderError, match="damaged"):
        Eigenformer.load(tmp_path)


def test_weights_of_another_architecture_are_an_error(tmp_path):
    Eigenformer(small_config()).save(tmp_path)
    card = json.loads((tmp_path / "model.json").read_text())
    card["architecture"]["layers"] = 3
    (tmp_path / "model.json").write_text(json.dumps(card))
    with pytest.raises(ModelFolderError, match="is missing"):
        Eigenformer.load(tmp_path)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelFolderError, match="no model here"):
        Eigenformer.load(tmp_path)
    (tmp_path / "model.json").write_text('{"architecture": {"kind": "eigenformer", "layrs": 1}}')
    with pytest.raises(ModelFolderError, match="no model here"):
        Eigenformer.load(tmp_path / "model.json")
    with pytest.raises(ModelFolderError, match="the nearest is 'layers'"):
        Eigenformer.load(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_neither_written_nor_loaded(tmp_path, value, monkeypatch):
    model = Eigenformer(small_config())
    with torch.no_grad():
        model.head.weight[0, 0] = value
    with pytest.raises(ModelFolderError, match=r"not written, because 'head.weight' is not a fin"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patch:  # as an earlier version did
        patch.setattr("eigenformer.model_folder.not_finite", lambda _: None)
        model.save(tmp_path)
    with pytest.raises(ModelFolderError, match=r"safetensors: 'head.weight' is not a finite"):
        load_model(tmp_path)


def test_weights_without_a_checksum_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    Eigenformer(small_config()).save(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(load_file(file), file)
    with pytest.raises(ModelFolderError, match="has no checksum"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_outputs": 2}, "the model has 1 outputs, but its target needs 2"),
        ({"level": "node"}, "cannot predict node targets"),
        ({"names": ["a", "b"]}, "names: 2 for 1 outputs"),
        ({"mean": [1.0, 2.0], "scale": [1.0, 1.0]}, "mean: expected 1 finite numbers or none"),
        ({"mean": [1.0], "scale": [0.0]}, "no scale may be 0"),
        ({"mean": [float("nan")], "scale": [1.0]}, "NaN is not a number in JSON"),
        ({"mean": [1.0], "scale": [float("inf")]}, "Infinity is not a number in JSON"),
    ],
)
def test_a_card_that_contradicts_itself(tmp_path, changes, reason):
    model = Eigenformer(small_config())
    save_model(tmp_path, model, ModelCard(model.config, target=NumberTarget()))
    load_model(tmp_path)
    card = json.loads((tmp_path / "model.json").read_text())
    card["target"].update(changes)
    (tmp_path / "model.json").write_text(json.dumps(card))
    with pytest.raises(ModelFolderError, match=reason):
        load_model(tmp_path)


def test_the_architecture_is_compared_with_the_weights_before_it_is_built(tmp_path, monkeypatch):
    model = Eigenformer(small_config())
    model.save(tmp_path)
    card = json.loads((tmp_path / "model.json").read_text())
    card["architecture"]["hidden_dim"] = 2048
    (tmp_path / "model.json").write_text(json.dumps(card))
    taken = []
    monkeypatch.setattr(torch.nn.init, "uniform_", lambda tensor, *_: taken.append(tensor.device))
    with pytest.raises(ModelFolderError, match="has shape"):
        load_model(tmp_path)
    assert {device.type for device in taken} == {"meta"}
