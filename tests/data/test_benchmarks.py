from __future__ import annotations

from dataclasses import replace

import pytest

from eigenformer.config import load_preset, presets
from eigenformer.data import BENCHMARKS, DataError, Statistics
from eigenformer.data.benchmarks import benchmark, builder


def statistics(name):
    """The paper's own row."""
    row = BENCHMARKS[name]
    expected = row.expected()
    edges = round(expected.edges * row.graphs) * (2 if row.count_once else 1)
    nodes = round(expected.nodes * row.graphs)
    return Statistics(row.graphs, nodes, edges, 1, 1, row.directed, (0, 0, 0))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_difference_is_seen(name):
    good = statistics(name)
    row = benchmark(name)
    assert row.differences(good) == []
    for change in (
        {"graphs": good.graphs - 1},
        {"nodes": round(good.nodes * 1.03)},
        {"edges": round(good.edges * 1.06)},
        {"directed": not good.directed},
    ):
        assert len(row.differences(replace(good, **change))) == 1, change


def test_every_preset_has_its_benchmark():
    assert {load_preset(name).dataset for name in presets()} == {*BENCHMARKS, ""}  # own data


def test_generated_ones_need_no_files():
    assert builder("pattern").layouts == ()
    with pytest.raises(DataError, match="only"):
        builder("mnist", seed=1)
