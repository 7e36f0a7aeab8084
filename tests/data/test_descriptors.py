from __future__ import annotations

import time

import numpy as np
import pytest

from eigenformer import from_smiles
from eigenformer.config import ConfigError, ReadOptions
from eigenformer.data import DataError
from eigenformer.data.descriptors import SETS, compute, rdkit2d, read
from eigenformer.data.molecules import featurizer, parse_smiles
from eigenformer.data.reading import read_own


@pytest.mark.parametrize("name", SETS)
def test_the_same_molecule_has_the_same_descriptors(name):
    one, other = (compute(parse_smiles(text), [name]) for text in ("OCC(C)N", "NC(C)CO"))
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert one.dtype == np.float32
    assert not np.array_equal(one, compute(parse_smiles("OCCCN"), [name]))


def test_what_cannot_be_computed_is_nan():
    values = compute(parse_smiles("[Na+].[Cl-]"), ["rdkit2d"])
    assert len(values) == len(rdkit2d(parse_smiles("C")))
    assert np.isnan(values).any()
    assert np.isfinite(values).any()
    assert not np.isinf(values).any()


def test_columns_of_a_table(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("smiles,y,a,b\nCCO,1,0.5,\nCCC,2,1.5,3\nCCN,2,x,3\n")
    options = ReadOptions(targets=("y",), descriptors=("a", "morgan", "b"))
    found = read_own(table, options)
    values = found.archive.fields["descriptors"].values
    assert values.shape == (2, 1026)  # computed ones first
    np.testing.assert_equal(values[:, -2:], [[0.5, np.nan], [1.5, 3]])
    assert "a: 'x' is not a number" in found.rejected[0].problem.reason
    with pytest.raises(DataError, match="column 'c': unknown"):
        read_own(table, ReadOptions(descriptors=("c",)))
    with pytest.raises(DataError, match="column 'b' is missing"):
        read({"a": "1"}, ["b"])


def test_settings_that_cannot_be():
    with pytest.raises(ConfigError, match="descriptors: 'a' appears twice"):
        ReadOptions(descriptors=("a", "a"))
    with pytest.raises(ConfigError, match="descriptors: 'a' is used otherwise"):
        ReadOptions(targets=("a",), descriptors=("a",))


def test_one_molecule():
    assert from_smiles("CCO", descriptors=["morgan"]).descriptors.shape == (1, 1024)
    assert "descriptors" not in from_smiles("CCO")


def test_a_molecule_that_is_too_large_is_refused_at_once():
    """Two of RDKit's descriptors take hours for thousands of atoms."""
    start = time.process_time()
    with pytest.raises(DataError, match=r"501 exceeds .* --limits descriptor_atoms=NUMBER"):
        featurizer("ogb", descriptors=["rdkit2d"])("C" * 501)
    assert time.process_time() - start < 5
    assert len(featurizer("ogb", descriptors=["morgan"])("C" * 501).descriptors) == 1024
