from __future__ import annotations

from pathlib import Path

import pytest

from eigenformer.analysis.curves import run_curves
from eigenformer.training.run_folder import RunError, RunFolder


def folder(path: Path, metric: str, values: list[float]) -> RunFolder:
    path.mkdir(parents=True)
    (path / "config.yaml").write_text("")
    run = RunFolder(path)
    run.write_metrics(
        [
            {"epoch": 1 + i, "train_loss": 1.0, "val_loss": 2.0, f"val_{metric}": value}
            for i, value in enumerate(values)
        ]
    )
    return run


@pytest.mark.parametrize("lower", ["mae", "rmse"])
def test_the_best_epoch_follows_the_metric(tmp_path: Path, lower: str) -> None:
    error = folder(tmp_path / "a", lower, [0.5, 0.2, float("nan"), 0.3])
    accuracy = folder(tmp_path / "b", "accuracy", [0.5, 0.2, 0.7])
    accuracy.write_summary({"test": 0.6})
    first, second = run_curves([error.path, accuracy.path])
    assert (first.name, first.best_epoch, first.test) == ("a", 2, None)
    assert (first.higher_is_better, second.higher_is_better) == (False, True)
    assert (second.metric, second.best_epoch, second.test) == ("accuracy", 3, 0.6)
    assert second.validation.tolist() == [0.5, 0.2, 0.7]


def test_a_run_says_itself_what_is_best(tmp_path: Path) -> None:
    """A metric that the package does not know may be an error; equal ones are told by the loss."""
    run = folder(tmp_path / "a", "nll", [0.5, 0.2, 0.2])
    run.write_summary({"higher_is_better": False, "best_epoch": 3})
    (found,) = run_curves([run.path])
    assert (found.higher_is_better, found.best_epoch) == (False, 3)
    tied = folder(tmp_path / "b", "accuracy", [0.5, 0.5, 0.5])
    rows = tied.read_metrics()
    rows[1]["val_loss"] = 1.5
    tied.write_metrics(rows)
    assert run_curves([tied.path])[0].best_epoch == 2


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    paths = [folder(tmp_path / parent / "run", "mae", [1.0]).path for parent in "ab"]
    assert [run.name for run in run_curves(paths)] == list(map(str, paths))


def test_a_run_without_epochs_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run folder"):
        run_curves([tmp_path])
    empty = folder(tmp_path / "empty", "mae", [])
    with pytest.raises(RunError, match="empty: no epochs recorded yet"):
        run_curves([empty.path])
    (empty.path / "metrics.csv").write_text("epoch\n1\n")
    with pytest.raises(RunError, match="metrics.csv: damaged"):
        run_curves([empty.path])
