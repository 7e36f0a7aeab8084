"""The progress of runs, epoch by epoch. Does not import PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigenformer.targets import LOWER_IS_BETTER
from eigenformer.training.run_folder import METRICS, RunError, RunFolder


@dataclass(frozen=True, eq=False)
class RunCurves:
    """The losses and metrics of a run.

    Args:
        name: The name of the run folder.
        metric: The validation metric.
        higher_is_better: Whether higher values of that metric are better.
        epochs: ``[epochs]``, counted from 1.
        train_loss: ``[epochs]``.
        validation: ``[epochs]``, the metric.
        best_epoch: The epoch with the best validation metric.
        test: The metric on the test set, with that epoch's weights; None if it is not known.
    """

    name: str
    metric: str
    higher_is_better: bool
    epochs: np.ndarray
    train_loss: np.ndarray
    validation: np.ndarray
    best_epoch: int
    test: float | None


def metric_name(metric: str) -> str:
    """Returns the name of a metric for a picture."""
    return "MAE" if metric == "mae" else metric.replace("_", " ")


def run_curves(paths: Sequence[str | Path]) -> list[RunCurves]:
    """Returns the curves of several runs, named by folder, or by path if folder names repeat."""
    folders = [RunFolder.open(path) for path in paths]
    names = [folder.path.resolve().name for folder in folders]
    return [
        _curves(folder, str(folder.path) if names.count(name) > 1 else name)
        for folder, name in zip(folders, names, strict=True)
    ]


def _curves(folder: RunFolder, name: str) -> RunCurves:
    rows = folder.read_metrics()
    if not rows:
        raise RunError(f"{folder.path}: no epochs recorded yet in {METRICS}")
    metric = next(
        (k[len("val_") :] for k in rows[0] if k.startswith("val_") and k != "val_loss"), None
    )
    if metric is None or "train_loss" not in rows[0]:
        raise RunError(f"{folder.path / METRICS}: damaged (no loss or no validation metric)")
    summary = folder.read_summary()
    higher = summary.get("higher_is_better", metric not in LOWER_IS_BETTER)
    values = np.array([row[f"val_{metric}"] for row in rows])
    test, best = summary.get("test"), summary.get("best_epoch")
    return RunCurves(
        name=name,
        metric=metric,
        higher_is_better=higher,
        epochs=np.array([row["epoch"] for row in rows]),
        train_loss=np.array([row["train_loss"] for row in rows]),
        validation=values,
        best_epoch=best if isinstance(best, int) else _best_epoch(rows, values, higher),
        test=test if isinstance(test, int | float) else None,
    )


def _best_epoch(rows: list[dict[str, float]], values: np.ndarray, higher: bool) -> int:
    """Returns the epoch with the best metric. The lower loss breaks ties."""
    known = np.where(np.isnan(values), np.inf, -values if higher else values)
    losses = np.array([row.get("val_loss", np.nan) for row in rows])
    return int(rows[int(np.lexsort((losses, known))[0])]["epoch"])
