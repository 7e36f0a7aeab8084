from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenformer.data import DataError
from eigenformer.data.splits import random_split, read_split, scaffold_split, stratified_split


@settings(max_examples=50, deadline=None)
@given(count=st.integers(0, 300), seed=st.integers(0, 100))
def test_random_sizes(count, seed):
    split = random_split(count, (0.7, 0.2, 0.1), seed)
    assert np.bincount(split, minlength=3).sum() == count
    assert np.abs(np.bincount(split, minlength=3) - np.array([0.7, 0.2, 0.1]) * count).max() <= 1
    np.testing.assert_array_equal(split, random_split(count, (0.7, 0.2, 0.1), seed))


def test_random_depends_on_the_seed():
    assert not np.array_equal(random_split(100, seed=0), random_split(100, seed=1))


@settings(max_examples=50, deadline=None)
@given(labels=st.lists(st.integers(0, 3), min_size=40, max_size=200), seed=st.integers(0, 50))
def test_stratified_shares_out_every_class(labels, seed):
    labels = np.array(labels)
    split = stratified_split(labels, (0.5, 0.25, 0.25), seed)
    for label in np.unique(labels):
        parts = np.bincount(split[labels == label], minlength=3)
        expected = np.array([0.5, 0.25, 0.25]) * (labels == label).sum()
        assert np.abs(parts - expected).max() <= 2


def test_stratified_numbers_and_missing_ones():
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    split = stratified_split(values, seed=1)
    tops = values >= np.quantile(values, 0.9)
    assert np.abs(np.bincount(split[tops]) - [80, 10, 10]).max() <= 2
    labels = np.array([0, 1, np.nan] * 100)
    split = stratified_split(labels, seed=1)
    assert np.abs(np.bincount(split[np.isnan(labels)]) - [80, 10, 10]).max() <= 2
    assert not np.array_equal(split, stratified_split(labels, seed=2))


def test_scaffolds_stay_together():
    pytest.importorskip("rdkit")
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "C1CCC1", "C1CCCC1"]
    smiles = [ring + "C" * n for n in range(5) for ring in rings]
    split = scaffold_split(smiles, (0.5, 0.25, 0.25))
    for ring in range(len(rings)):
        assert len(set(split[ring :: len(rings)])) == 1
    assert np.bincount(split).tolist() == [15, 5, 10]


@pytest.mark.parametrize("fractions", [(0.8, 0.2), (0.5, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_fractions_must_be_parts_of_a_whole(fractions):
    with pytest.raises(DataError, match="add up to 1"):
        random_split(10, fractions)


def test_names():
    assert [read_split(cell) for cell in ("Train", " valid ", "TEST")] == ["train", "val", "test"]
    with pytest.raises(DataError, match="split 'tarin': unknown; the nearest is 'train'"):
        read_split("tarin")


@pytest.mark.parametrize("seed", range(6))
def test_missing_numbers_are_a_value_of_their_own(seed):
    """Also where there are too many values for classes, and tenths of them are balanced."""
    values = np.random.default_rng(0).normal(size=1000)
    values[:50] = np.nan
    split = stratified_split(values, seed=seed)
    assert np.bincount(split[:50]).tolist() == [40, 5, 5]
    tops = values >= np.nanquantile(values, 0.9)
    assert np.abs(np.bincount(split[tops]) - [76, 9.5, 9.5]).max() <= 1
