"""The results that are kept: complete, as the docs show them; ZINC's model as good as said."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from eigenformer import Eigenformer
from eigenformer.config import RunConfig, load_preset
from eigenformer.data import Workspace
from eigenformer.experiments.paper_tables import result_tables
from eigenformer.model_folder import WEIGHTS
from eigenformer.trained_model import TrainedModel
from eigenformer.training.overview import find_runs
from eigenformer.training.run_folder import METRICS, RunFolder

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
RUNS = [run.path.name for run in find_runs(RESULTS) if run.path.parent == RESULTS]
SHIPPED = ("zinc", "zinc-plus", "pattern-plus", "cluster-plus")  # with their weights
ABLATION = RESULTS / "ablation-frequencies"


def test_the_tables_of_the_docs_are_those_of_the_runs() -> None:
    tables = result_tables(RESULTS)
    ours = tables.partition("\n\n**")[0].partition("\n\n")[2]
    assert len(ours.splitlines()) == 2 + len(RUNS)  # every run counts
    assert tables in (ROOT / "docs" / "results.md").read_text("utf-8")
    assert ours in (ROOT / "README.md").read_text("utf-8")


def check_run(run: RunFolder) -> tuple[RunConfig, dict[str, Any]]:
    """Settings, metrics and summary are there, and tell the same."""
    config, summary = run.read_config(), run.read_summary()
    with (run.path / METRICS).open() as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["epoch"]) for row in rows] == list(range(1, config.training.epochs + 1))
    assert summary["parameters"] == Eigenformer(config.model).num_parameters()
    best = float(rows[summary["best_epoch"] - 1][f"val_{summary['metric']}"])
    assert best == pytest.approx(summary["best_validation"])
    assert {"torch", "torch_geometric", "eigenformer"} <= summary["versions"].keys()
    return config, summary


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_complete(name: str) -> None:
    config, _ = check_run(RunFolder.open(RESULTS / name))
    training = load_preset(config.preset).training
    assert config.training == training.with_epochs(config.training.epochs)
    assert (RESULTS / name / WEIGHTS).exists() == (name in SHIPPED)


def test_the_ablation_is_one_of_equal_budgets() -> None:
    with (ABLATION / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    runs = [RunFolder.open(run.path) for run in find_runs(ABLATION)]
    assert len(runs) == len(rows) == 9
    found = [check_run(run) for run in runs]
    assert len({str(config.training.to_dict()) for config, _ in found}) == 1
    assert {config.preset for config, _ in found} == {"zinc-feat"}
    assert sorted(float(row["test_mae"]) for row in rows) == sorted(
        summary["test"] for _, summary in found
    )
    assert (ABLATION / "table.md").read_text("utf-8") in (ROOT / "docs" / "results.md").read_text(
        "utf-8"
    )


def test_the_short_runs_are_as_the_docs_say() -> None:
    runs = find_runs(RESULTS / "short-runs")
    page = (ROOT / "docs" / "results.md").read_text("utf-8").splitlines()
    rows = [line for line in page if line.startswith(("| `zinc", "| `peptides", "| `pattern"))]
    assert len(runs) == len(rows) == 24
    for run in runs:
        _, summary = check_run(RunFolder.open(run.path))
        (row,) = (line for line in rows if line.startswith(f"| `{run.path.name}` |"))
        assert row.endswith(f"| {summary['best_validation']:.4f} | {summary['test']:.4f} |")


@pytest.mark.parametrize(
    ("name", "at_least"),
    [
        ("zinc", 0.14),
        ("zinc-plus", 0.14),
        # They generate all graphs and their spectra.
        pytest.param("pattern-plus", 0.865, marks=pytest.mark.slow),
        pytest.param("cluster-plus", 0.775, marks=pytest.mark.slow),
    ],
)
def test_a_shipped_model_is_as_good_as_its_run_says(
    name: str, at_least: float, raw_dir: Path, tmp_path: Path
) -> None:
    said = RunFolder.open(RESULTS / name).read_summary()["test"]
    trained = TrainedModel.open(RESULTS / name)
    found = trained.evaluate(trained.graphs(Workspace(raw_dir, tmp_path)))
    assert found[trained.target.metric] == pytest.approx(said, abs=1e-4)
    assert said >= at_least if trained.target.higher_is_better else said <= at_least
