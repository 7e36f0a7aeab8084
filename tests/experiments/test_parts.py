"""The ablation of ingredients: gains, table and records. Its runs are tested with the command."""

from __future__ import annotations

import csv
import io

import pytest

from eigenformer.config import load_preset
from eigenformer.experiments.cost import Cost
from eigenformer.experiments.ingredients import part_variants
from eigenformer.experiments.parts import PartOutcome, PartsAblation
from eigenformer.experiments.parts_tables import parts_records, parts_table


def parts_ablation(higher: bool = False) -> PartsAblation:
    """Two ingredients on ZINC, two seeds: 0.4 and 0.5 for the paper's preset."""
    tests = [(0.4, 0.5), (0.3, 0.3), (0.5, 0.5), (0.2, 0.2), (0.25, 0.4)]
    variants = part_variants(load_preset("zinc"), ["phi_gain", "drop_path"])
    outcomes = [
        PartOutcome(variant, 1000 + number, Cost(0.05, 1.0, 10), 30 - number, test)
        for number, (variant, test) in enumerate(zip(variants, tests, strict=True))
    ]
    return PartsAblation("zinc", "mae", higher, (0, 1), "2 minutes", tuple(outcomes))


def test_a_gain_is_relative_to_the_model_without_the_ingredient():
    ablation = parts_ablation()
    _, gained, lost, _, without = ablation.outcomes
    assert ablation.gains(gained) == pytest.approx((25, 40))
    assert ablation.gains(lost) == pytest.approx((-25, 0))
    assert ablation.gains(without) == pytest.approx((20, 50))
    assert parts_ablation(higher=True).gains(gained) == pytest.approx((-25, -40))


def test_the_table_has_cost_and_gain_of_each_ingredient():
    lines = parts_table(parts_ablation()).splitlines()
    assert "2 minutes; 2 seeds" in lines[0]
    assert lines[4] == "| zinc | 1,000 | 50 | 30 | 0.4500 ± 0.0707 |  |"
    assert lines[5].startswith("| … with phi_gain 2.45 | 1,001 | 50 | 29 | 0.3000 ± 0.0000 | +32.5")
    assert lines[8].startswith("| … without phi_gain | 1,004 | 50 | 26 | 0.3250 ± 0.1061 | +35.0")


def test_the_records_keep_every_seed():
    rows = list(csv.DictReader(io.StringIO(parts_records(parts_ablation()))))
    assert len(rows) == 10
    assert [row["switched"] for row in rows[::2]] == ["", "on", "on", "", "off"]
    assert [row["test_mae"] for row in rows[-2:]] == ["0.25", "0.4"]
    assert float(rows[0]["epoch_seconds"]) == 1.5
