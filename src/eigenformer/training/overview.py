"""An overview of the runs below a folder. Does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenformer.reporting import shown
from eigenformer.training.run_folder import CONFIG, RunError, RunFolder

COLUMNS = (
    *("run", "dataset", "network", "preset", "seed", "parameters", "epochs", "metric"),
    *("best val", "test", "s/epoch", "state"),
)


@dataclass(frozen=True)
class Run:
    """A run folder and its summary."""

    path: Path
    summary: dict[str, Any]

    @property
    def finished(self) -> bool:
        return self.summary.get("state") == "finished"


def find_runs(folder: str | Path) -> list[Run]:
    """Returns all runs below a folder, sorted by path.

    If a summary cannot be read, the run's state is "damaged summary".
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder")
    runs = []
    for config in sorted(folder.rglob(CONFIG)):
        try:
            summary = RunFolder(config.parent).read_summary()
        except RunError:
            summary = {"state": "damaged summary"}
        runs.append(Run(config.parent, summary))
    return runs


def run_rows(folder: str | Path) -> list[tuple[str, ...]]:
    """Returns the rows of ``eigenformer runs``."""
    return [_row(run, Path(folder)) for run in find_runs(folder)]


def _row(run: Run, folder: Path) -> tuple[str, ...]:
    summary = run.summary
    done, planned = summary.get("epochs", 0), summary.get("epochs_planned")
    return (
        str(run.path.relative_to(folder)) if run.path != folder else run.path.name,
        Path(str(summary.get("dataset", "-"))).name,
        _network(run),
        str(summary.get("preset", "-")),
        str(summary.get("seed", "-")),
        str(summary.get("parameters", "-")),
        f"{done}/{planned}" if planned else "-",
        str(summary.get("metric", "-")),
        _number(summary.get("best_validation"), 4),
        _number(summary.get("test"), 4),
        _number(summary.get("seconds_per_epoch"), 1),
        str(summary.get("state", "not started")),
    )


def _network(run: Run) -> str:
    """Returns the name of the network: from the summary or, for older runs, from the settings."""
    if "network" in run.summary:
        return str(run.summary["network"])
    try:
        return RunFolder(run.path).read_config().model.title
    except ValueError:
        return "-"


def _number(value: Any, digits: int) -> str:
    return shown(value, digits) if isinstance(value, int | float) else "-"
