from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from eigenformer.data import DataError
from eigenformer.data.packed import open_member, read_npz
from eigenformer.limits import Limits


def test_arrays_as_numpy_reads_them(tmp_path):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros((0, 4), "i4"), "c": np.array(3)}
    arrays["d"] = np.asfortranarray(arrays["a"])
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    found = read_npz(tmp_path / "x.npz")
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_bomb_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(1 << 20))
    with pytest.raises(DataError, match=r"x.npz: unpacks from .* limit of 1,000,000"):
        read_npz(tmp_path / "x.npz", Limits(unpacked_bytes=10**6))
    with (
        zipfile.ZipFile(tmp_path / "x.npz") as archive,
        pytest.raises(DataError, match="a.npy: unpacks from"),
        open_member(archive, "a.npy", Limits(unpacked_bytes=10**6)),
    ):
        pass


@pytest.mark.parametrize("shape", [(1 << 40,), (9,), (11,), (-1,), (1 << 62, 1 << 62)])
def test_a_header_that_lies(tmp_path, shape):
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", header.getvalue() + b"\0" * 80)
    with pytest.raises(DataError, match=r"x.npz: 'a.npy'"):
        read_npz(tmp_path / "x.npz")


def test_objects_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="expected an array of numbers"):
        read_npz(tmp_path / "x.npz")
