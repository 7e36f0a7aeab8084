"""A sweep trains what is missing and yields what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigenformer.config import ConfigError
from eigenformer.experiments.sweep import Variant, sweep
from eigenformer.training.run_folder import RunError
from tests.experiments.test_ablation import TINY

BASE = {**TINY, "data": {"dataset": "pattern", "size": 30}}


def test_every_variant_for_every_seed(tmp_path: Path) -> None:
    variants = [
        Variant("", {}),
        Variant("quick", {"training": {"learning_rate": 0.01}, "precision": "64"}),
    ]
    runs = list(sweep(BASE, variants, [0, 3], tmp_path))
    assert [run.folder.name for run in runs] == [
        *("pattern-pattern-seed0", "pattern-pattern-seed3"),
        *("pattern-pattern-quick-seed0", "pattern-pattern-quick-seed3"),
    ]
    assert [run.seed for run in runs] == [run.config.seed for run in runs] == [0, 3, 0, 3]
    assert [run.config.training.learning_rate for run in runs][2:] == [0.01, 0.01]
    assert runs[3].config.precision == "64"
    assert len({run.summary["test"] for run in runs}) > 1
    written = [(run.folder / "summary.json").stat().st_mtime_ns for run in runs]
    again = list(sweep(BASE, variants, [0, 3], tmp_path))
    assert [run.summary for run in again] == [run.summary for run in runs]
    assert [(run.folder / "summary.json").stat().st_mtime_ns for run in again] == written


def test_a_folder_of_other_settings_is_not_taken(tmp_path: Path) -> None:
    names = {"name": lambda config, data, variant: "run"}
    next(sweep(BASE, [Variant("", {})], [0], tmp_path, **names))
    with pytest.raises(RunError, match="run: started with other settings"):
        next(sweep(BASE, [Variant("a", {"model": {"dropout": 0.1}})], [0], tmp_path, **names))


@pytest.mark.parametrize(
    ("variants", "seeds", "message"),
    [
        ([], [0], "at least one variant"),
        ([Variant("a", {})], [], "one seed"),
        ([Variant("a", {})] * 2, [0], "variants: 'a' appears twice"),
        ([Variant("a", {})], [1, 1], "seeds: '1' appears twice"),
        ([Variant("a", {"model": {"layers": 2}})], [0], "model.layers: cannot be set, because"),
    ],
)
def test_a_sweep_that_makes_no_sense(variants, seeds, message, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        next(sweep(BASE, variants, seeds, tmp_path))
