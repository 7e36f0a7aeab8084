from __future__ import annotations

import json
import pickle

import pytest
import torch

from eigenformer import Eigenformer
from eigenformer.model_folder import ModelFolderError, load_model
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
