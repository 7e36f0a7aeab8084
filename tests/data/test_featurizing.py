from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eigenformer.data import DataError, featurizer, featurizing
from eigenformer.data.molecules import MoleculeError
from eigenformer.reporting import Reporter

pytest.importorskip("rdkit")

SMILES = ["C" * (1 + n % 7) + ("xyz" if n % 10 == 3 else "") for n in range(300)]


@pytest.mark.parametrize("many", [10**9, 100])
def test_every_molecule_in_its_place(monkeypatch, many):
    monkeypatch.setattr(featurizing, "_MANY", many)
    graphs = featurizing.featurize_all(SMILES, "ogb", Reporter())
    assert len(graphs) == len(SMILES)
    make = featurizer("ogb")
    for smiles, graph in zip(SMILES, graphs, strict=True):
        if "xyz" in smiles:
            assert isinstance(graph, MoleculeError)
            assert str(graph) == f"'{smiles}': invalid SMILES"
        else:
            np.testing.assert_array_equal(graph.x, make(smiles).x)
            np.testing.assert_array_equal(graph.edge_index, make(smiles).edge_index)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_many_are_shared_out(monkeypatch):
    monkeypatch.setattr(featurizing, "_MANY", 100)
    monkeypatch.setattr(featurizing.os, "sched_getaffinity", lambda _: {0, 1})
    used = []
    pool = featurizing.ProcessPoolExecutor
    monkeypatch.setattr(
        featurizing, "ProcessPoolExecutor", lambda *a: used.append(a[0]) or pool(*a)
    )
    featurizing.featurize_all(SMILES, "zinc", Reporter())
    featurizing.featurize_all(SMILES[:99], "zinc", Reporter())
    assert used == [2]


KILLED = """
from eigenformer.data import featurizing
from eigenformer.reporting import Reporter

class Step:
    def advance(self, amount):
        print("busy", flush=True)

class Loud(Reporter):
    def step(self, *_, **__):
        from contextlib import nullcontext
        return nullcontext(Step())

featurizing._MANY = 1
featurizing.os.sched_getaffinity = lambda _: {0, 1}
featurizing.featurize_all(["C" * 50] * 200_000, "ogb", Loud())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_a_killed_process_takes_its_helpers_along():
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "busy\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert len(children) == 2
    end = time.monotonic() + 30
    while any(is_running(child) for child in children):
        assert time.monotonic() < end
        time.sleep(0.1)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_unknown_featurizer_is_named():
    with pytest.raises(DataError, match="the nearest is 'ogb'"):
        featurizing.featurize_all(SMILES, "ogbb", Reporter())
