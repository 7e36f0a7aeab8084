"""Ablations: each variant trained once, tested in two ways, beside the paper's figures."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from eigenformer.config import ConfigError
from eigenformer.experiments import sweep
from eigenformer.experiments.ablation import (
    Ablation,
    Outcome,
    ablate,
    frequency_variants,
    scaler_variants,
)
from eigenformer.experiments.ablation_tables import (
    frequency_curves,
    frequency_table,
    records,
    scaler_table,
)
from eigenformer.training.loop import Interrupted
from eigenformer.training.run_folder import RunFolder

TINY = {
    "data": {"size": 30},
    "model": {"layers": 1, "hidden_dim": 16, "phi_width": 4},
    "training": {"epochs": 1, "batch_size": 4},
    "threads": 1,
}


def _found(name: str = "zinc-feat", higher: bool = False) -> Ablation:
    """Two seeds whose metric is 0.1 with all frequencies and grows as they become fewer."""
    outcomes = [
        Outcome(variant, 10, (0.1 / share, 0.12 / share), (0.2 / share, 0.22 / share), share)
        for variant in frequency_variants([1.0, 0.8, 0.2])
        for share in [variant.settings["model"]["frequency_fraction"]]
    ]
    return Ablation(name, "mae", (0, 1), 30, None, higher, tuple(outcomes))


def test_every_fraction_twice_but_all_frequencies_once() -> None:
    names = [variant.name for variant in frequency_variants([0.2, 1.0, 0.8, 0.2])]
    expected = ["all", "0.8-eigenspaces", "0.8-literal", "0.2-eigenspaces", "0.2-literal"]
    assert names == expected
    assert [v.settings["model"]["degree_scaler"] for v in scaler_variants()] == [
        "shared",
        "per_layer",
        "none",
    ]
    with pytest.raises(ConfigError, match=r"fractions: must be in \(0, 1\], got 1.5"):
        frequency_variants([1.5])


def test_the_table_has_the_papers_figures_beside_ours() -> None:
    lines = frequency_table(_found()).splitlines()
    assert "30 epochs (the paper's schedule: 2000), 2 seeds" in lines[0]
    assert lines[4].startswith("| 1 | 0.089 (37 of 37) | 0.2100 ± 0.0141 | 0.1100 ± 0.0141 | 1.00")
    assert lines[5].startswith("| 0.8 | 0.097 (30 of 37) | 0.2625 ± 0.0177 | 0.1375")
    assert lines[6].startswith("| 0.2 | 0.180 (8 of 37) |")
    assert "0.089" not in frequency_table(_found("zinc"))


def test_the_records_keep_every_seed() -> None:
    rows = list(csv.DictReader(io.StringIO(records(_found()))))
    assert len(rows) == 10
    assert rows[2]["frequency_draw"] == "eigenspaces"
    assert float(rows[3]["test_mae"]) == 0.12 / 0.8
    assert [row["seed"] for row in rows[:2]] == ["0", "1"]


def test_the_curves_are_changes_in_percent() -> None:
    curves = {(curve.draw, curve.everywhere): curve for curve in frequency_curves(_found())}
    assert len(curves) == 5
    curve = curves["literal", True]
    assert curve.fractions == (1.0, 0.8, 0.2)
    assert curve.changes == pytest.approx((0, 25, 400))
    assert curves["eigenspaces", False].changes[0] == pytest.approx(100 * (0.21 / 0.11 - 1))
    assert curves["paper", False].changes[-1] == pytest.approx(100 * (0.180 / 0.089 - 1))
    worse = frequency_curves(_found("pattern", higher=True))
    assert len(worse) == 4
    assert worse[1].changes[-1] == pytest.approx(-400)


def test_the_frequencies_of_real_graphs(tmp_path: Path) -> None:
    variants = frequency_variants([1.0, 0.3])
    found = ablate("pattern", variants, [0], tmp_path, TINY, samples=2)
    everything, whole, _ = found.outcomes
    assert everything.test == pytest.approx(everything.sampled)
    assert everything.kept == 1
    assert 0.3 <= whole.kept < 0.5
    folder = tmp_path / "pattern-pattern-0.3-eigenspaces-seed0"
    assert RunFolder(folder).read_config().model.frequency_fraction == 0.3
    first = (folder / "model.safetensors").stat().st_mtime_ns
    assert ablate("pattern", variants, [0], tmp_path, TINY, samples=2).outcomes == found.outcomes
    assert (folder / "model.safetensors").stat().st_mtime_ns == first


def test_the_degree_scaler_of_real_graphs(tmp_path: Path) -> None:
    found = ablate("pattern", scaler_variants(), [0], tmp_path, TINY)
    assert [o.parameters for o in found.outcomes][1:] == [
        found.outcomes[0].parameters,  # one layer: a scaler of its own is the shared one
        found.outcomes[0].parameters - 2 * 16,
    ]
    assert "| none | " in scaler_table(found)


def test_what_the_ablation_changes_cannot_be_set(tmp_path: Path) -> None:
    wanted = {"model": {"degree_scaler": "none"}}
    with pytest.raises(
        ConfigError, match="degree_scaler: cannot be set, because the variants change it"
    ):
        ablate("pattern", scaler_variants(), [0], tmp_path, wanted)


def test_a_stopped_ablation_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object) -> None:
        raise Interrupted("stopped")

    monkeypatch.setattr(sweep, "start_run", stop)
    with pytest.raises(Interrupted, match="-shared-seed0; run the same command again to resume"):
        ablate("pattern", scaler_variants(), [0], tmp_path, TINY)
