"""Checkpoints: the same state comes back, and nothing in a file runs."""

from __future__ import annotations

import collections
import io
import json
import math
import os
import zipfile

import pytest
import torch

from eigenformer.training.checkpoint_io import AtomicCheckpointIO, pack_state
from eigenformer.training.run_folder import RunError
from tests.data.exploits import MARKER, Evil, cluster_data, pickles, saved, torch_files

STATE = {
    "epoch": 3,
    "state_dict": collections.OrderedDict(
        weight=torch.randn(3, 4),
        count=torch.tensor(7),
        half=torch.randn(2).bfloat16(),
        transposed=torch.randn(2, 3, 4).permute(2, 0, 1),
        every_other=torch.arange(6)[::2],
        none=torch.empty(0, 3),
        mask=torch.tensor([True, False]),
    ),
    "optimizer_states": [{"state": {0: {"step": torch.tensor(2.0)}}, "betas": (0.9, 0.99)}],
    "callbacks": {"Recorder": {"rows": [{"loss": 0.1 + 0.2, "bad": float("inf")}], "best": None}},
    "text": 'ü\n{"tensor": "0"}',
    "large": 2**60,
    "flag": True,
    "empty": [{}, [], ()],
}


def same(one, other) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        # Gaps between elements are not kept.
        layout = one.stride() == other.stride() or one.untyped_storage().nbytes() > one.nbytes
        return one.dtype == other.dtype and torch.equal(one, other) and layout
    return one == other


def test_the_same_state_comes_back(tmp_path):
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(STATE, path)
    assert same(STATE, AtomicCheckpointIO().load_checkpoint(path))
    assert path.read_bytes() == pack_state(STATE)
    assert os.listdir(tmp_path) == ["last.ckpt"]


def test_a_nan_comes_back(tmp_path):
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"best": float("nan")}, path)
    best = AtomicCheckpointIO().load_checkpoint(path)["best"]
    assert math.isnan(best)


@pytest.mark.parametrize("zipped", [True, False])
def test_checkpoints_of_earlier_versions_are_read(tmp_path, zipped):
    path = tmp_path / "last.ckpt"
    torch.save(STATE, path, _use_new_zipfile_serialization=zipped)
    if zipped:
        assert same(STATE, AtomicCheckpointIO().load_checkpoint(path))
    else:  # they were never written in this form
        with pytest.raises(RunError, match=r"last\.ckpt: damaged, or not a checkpoint"):
            AtomicCheckpointIO().load_checkpoint(path)


@pytest.mark.parametrize("value", [{1, 2}, object(), {"a": {1.5: 1}}, b"bytes"])
def test_other_values_are_not_written(tmp_path, value):
    with pytest.raises(TypeError, match="a checkpoint"):
        AtomicCheckpointIO().save_checkpoint({"x": value}, tmp_path / "last.ckpt")
    assert os.listdir(tmp_path) == []


def refused(path) -> None:
    with pytest.raises(RunError) as caught:
        AtomicCheckpointIO().load_checkpoint(path)
    assert str(caught.value).startswith(f"{path}: damaged, or not a checkpoint")
    assert "\n" not in str(caught.value)


def test_nothing_in_a_checkpoint_runs(tmp_path):
    path = tmp_path / "last.ckpt"
    for evil in (cluster_data(tmp_path), Evil(os.mkdir, str(tmp_path / MARKER))):
        path.write_bytes(saved({**STATE, "evil": evil}))
        refused(path)
    assert not (tmp_path / MARKER).exists()


def test_hostile_files_are_refused(tmp_path):
    path = tmp_path / "last.ckpt"
    for data in (*pickles().values(), *torch_files().values(), b"", b"PK\x03\x04"):
        path.write_bytes(data)
        refused(path)


@pytest.mark.parametrize(
    "skeleton",
    [
        '{"tensor": "99"}',
        '{"tensor": ["0"]}',
        '{"tensor": "0", "stride": [0, 0]}',
        '{"tensor": "0", "stride": [1, -1]}',
        '{"tensor": "0", "stride": ["a", "b"]}',
        '{"tensor": "0", "stride": 3}',
        '{"class": "os.system"}',
        '{"dict": [1, 2]}',
        '{"dict": [[[], 1]]}',
        '{"tuple": 1}',
        "{}",
        "[]",
        "1",
        "",
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_state_that_does_not_fit_is_refused(tmp_path, skeleton):
    path, stream = tmp_path / "last.ckpt", io.BytesIO(pack_state({"x": torch.ones(2, 2)}))
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(path, "w") as new:
        assert json.loads(old.read("state.json")) == {"dict": [["x", {"tensor": "0"}]]}
        new.writestr("state.json", skeleton.encode("utf-8", "surrogateescape"))
        new.writestr("tensors.safetensors", old.read("tensors.safetensors"))
    refused(path)
