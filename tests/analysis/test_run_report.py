"""What is reported of a run, whole or in parts."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from eigenformer.analysis.run_report import report_run
from eigenformer.training.run_folder import RunError, RunFolder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    """The run, to be spoilt."""
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


def _change(folder: Path, section: str, **values: object) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config[section].update(values)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def test_a_finished_run_is_reported_whole(run: Path) -> None:
    report = report_run(run, examples=3)
    assert report.missing == {}
    assert len(report.metrics) == 3
    assert report.filters is not None
    assert report.filters.phi2.shape == (1, 8, 65)
    assert report.test is not None
    assert report.test.pairs is not None
    assert report.test.pairs.shape == (6, 2)
    gaps = np.abs(np.diff(report.test.pairs, axis=1))[:, 0]
    assert gaps.mean() == pytest.approx(report.summary["test"], rel=1e-4)
    errors = [example.error for example in report.test.examples]
    assert errors == sorted(gaps.tolist(), reverse=True)[:3]
    assert report.comparison is None  # the paper knows nothing of these molecules


def test_a_benchmark_is_ranked_among_the_papers_models(copy: Path) -> None:
    _change(copy, "data", dataset="zinc", targets=[])
    summary = RunFolder(copy).read_summary()
    RunFolder(copy).write_summary({**summary, "test": 0.0785})
    found = report_run(copy).comparison
    assert found is not None
    names = [rank.name for rank in found.ranks]
    assert names[2:5] == ["Eigenformer", "this run: eigenformer", "CIN"]
    assert {rank.whose for rank in found.ranks} == {"ours", "paper", "baseline"}
    assert found.lower_is_better


def test_what_is_missing_is_said(copy: Path, table: Path) -> None:
    (copy / "model.safetensors").unlink()
    report = report_run(copy)
    assert report.filters is None
    assert report.test is None
    assert "model.safetensors: missing" in report.missing["filters"]


def test_a_run_without_its_data(copy: Path) -> None:
    _change(copy, "data", dataset="/nowhere/molecules.csv")
    report = report_run(copy)
    assert report.test is None
    assert report.filters is not None
    assert "no such file" in report.missing["test"]


def test_a_run_that_only_began(copy: Path) -> None:
    for name in ("summary.json", "metrics.csv", "model.json", "model.safetensors"):
        (copy / name).unlink()
    report = report_run(copy)
    assert set(report.missing) == {"summary", "model", "filters", "test"}
    assert report.metrics == []


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        report_run(tmp_path)
