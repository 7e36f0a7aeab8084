from __future__ import annotations

import collections
import io
import os
import pickle

import numpy as np
import pytest
import torch

from eigenformer.data import DataError
from eigenformer.data.unpickle import load_arrays, load_arrays_from

TENSOR = torch.arange(12).view(3, 4)[:, 1:]


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def load(data: bytes):
    return load_arrays(io.BytesIO(data), "file")


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_arrays_tensors_and_plain_values(protocol):
    value = {
        "tensor": TENSOR,
        "float": torch.randn(2, 2),
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "scalar": np.float32(1.5),
        "list": [1, 2.5, "text", None, True, (1, 2)],
        "ordered": collections.OrderedDict(a=1),
    }
    loaded = load(pickle.dumps([value], protocol=protocol))[0]
    for name in ("tensor", "float"):
        assert torch.equal(loaded[name], value[name])
        assert loaded[name].dtype == value[name].dtype
    for name in ("array", "fortran", "scalar"):
        np.testing.assert_array_equal(loaded[name], value[name])
    assert loaded["list"] == value["list"]


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch(tmp_path, zipped):
    path = tmp_path / "file.pt"
    torch.save([[{"x": TENSOR}]], path, _use_new_zipfile_serialization=zipped)
    assert torch.equal(load_arrays_from(path)[0][0]["x"], TENSOR)


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.system, "touch PWNED"),
        Evil(eval, "open('PWNED', 'w')"),
        Evil(exec, "open('PWNED', 'w')"),
        Evil(open, "PWNED", "w"),
        Evil(getattr, "", "join"),
        Evil(__import__, "os"),
        Evil(torch.load, "PWNED"),
        Evil(np.load, "PWNED"),
    ],
    ids=lambda evil: evil.call[0].__name__,
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("form", ["pickle", "torch", "torch-legacy", "storage", "object-array"])
def test_nothing_is_run(tmp_path, monkeypatch, evil, protocol, form):
    monkeypatch.chdir(tmp_path)
    buffer = io.BytesIO()
    if form == "pickle":
        pickle.dump({"x": [evil]}, buffer, protocol=protocol)
    elif form == "storage":
        # What PyTorch calls for a storage in an ordinary pickle is itself a free unpickler.
        inner = io.BytesIO()
        torch.save({"x": evil}, inner, _use_new_zipfile_serialization=False)
        load_from_bytes = torch.storage._load_from_bytes
        pickle.dump(Evil(load_from_bytes, inner.getvalue()), buffer, protocol=protocol)
    elif form == "object-array":
        pickle.dump(np.array([evil, None], dtype=object), buffer, protocol=protocol)
    else:
        zipped = form == "torch"
        torch.save([evil], buffer, _use_new_zipfile_serialization=zipped)
    with pytest.raises(DataError, match="file: "):
        load(buffer.getvalue())
    assert list(tmp_path.iterdir()) == []


def test_the_name_asked_for_is_said():
    with pytest.raises(DataError, match=r"asks for 'posix\.system'; only arrays"):
        load(pickle.dumps(Evil(os.system, "true")))


def test_references_outside_are_refused():
    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return "somewhere" if obj == "x" else None

    buffer = io.BytesIO()
    Pickler(buffer).dump(["x"])
    with pytest.raises(DataError, match="outside itself"):
        load(buffer.getvalue())


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x03\x04broken", pickle.dumps([TENSOR])[:-9]])
def test_what_is_no_such_file_is_said(data):
    with pytest.raises(DataError, match="file: not a file of arrays"):
        load(data)


def test_sizes_that_only_a_file_claims():
    shape = (2**40, 2**12)
    data = pickle.dumps(Evil(np._core.multiarray._reconstruct, np.ndarray, shape, "f8"))
    with pytest.raises(DataError, match="file: not a file of arrays"):
        load(data)


def test_a_tensor_cannot_reach_outside_its_storage():
    storage = torch.zeros(4).__reduce_ex__(2)[1][0]
    for offset, size in ((0, (10**6,)), (-1, (1,)), (4, (1,)), (2, (3,))):
        bad = Evil(torch._utils._rebuild_tensor_v2, storage, offset, size, (1,), False, {})
        with pytest.raises(DataError, match="not a file of arrays"):
            load(pickle.dumps(bad))
