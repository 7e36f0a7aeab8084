"""A miniature of ``make torture``, so that it does not rust."""

from __future__ import annotations

import os

import pytest

from tests.torture.bench import differences
from tests.torture.torture import Torture


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_few_kills_and_a_rival(tmp_path):
    pytest.importorskip("rdkit")
    torture = Torture(tmp_path, seed=0)
    torture.kill(2)
    torture.compete(1)
    assert torture.failures == []
    assert (torture.done["kills"], torture.done["rivals"]) == (2, 1)


def test_differences_are_found():
    assert differences({"a": "1"}, {"a": "1"}) == []
    assert len(differences({"a": "1", "b": "2"}, {"a": "0", "c": "3"})) == 3
