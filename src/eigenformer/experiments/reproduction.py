"""The paper's figures again: a preset's full schedule for several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigenformer.config import RunConfig, load_preset
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.paper_tables import format_result, mean_and_deviation
from eigenformer.reporting import Reporter
from eigenformer.training.loading import TrainingData
from eigenformer.training.loop import Interrupted, resume_run, start_run
from eigenformer.training.planning import plan
from eigenformer.training.run_folder import CONFIG, RunError, RunFolder


def reproduce(
    preset: str,
    seeds: Sequence[int],
    out: str | Path,
    wanted: dict[str, Any],
    workspace: Workspace | None = None,
) -> str:
    """Trains what is not trained yet, and returns mean ± deviation beside the paper's figure.

    Args:
        preset: One of the paper's models.
        seeds: One run each, in a folder of its own below ``out``.
        out: Where the runs are; those that are there are taken up where they were stopped.
        wanted: Other settings than the preset's.
        workspace: Where raw files and prepared graphs are (default: as the environment says).
    """
    workspace = workspace or Workspace.resolve()
    report = workspace.reporter
    record = load_preset(preset)
    base = {**wanted, "preset": preset}
    base["data"] = {"dataset": record.dataset, **wanted.get("data", {})}
    results = []
    for seed in seeds:
        folder = Path(out) / f"{preset}-seed{seed}"
        config, data = plan({**base, "seed": seed}, workspace)
        summary = finish_run(folder, config, data, report)
        results.append(float(summary["test"]))
        report.say(f"seed {seed}: test {summary['metric']} {summary['test']:.4f}")
    percent = 100 if summary["metric"] in ("accuracy", "weighted_accuracy") else 1
    mean, deviation = mean_and_deviation([percent * result for result in results])
    count = "1 seed" if len(results) == 1 else f"{len(results)} seeds"
    full = record.original().training.epochs
    shortened = config.training.epochs != full or config.data.limit is not None
    note = "; not the paper's full schedule" if shortened else ""
    note += f"; a variant of the paper's {record.variant_of}" if record.variant_of else ""
    shown = f"{format_result(mean, deviation, 4)} ({count}{note})"
    return f"{preset}: test {record.paper.metric} {shown}; the paper: {record.paper.result} (1 run)"


def finish_run(
    folder: Path, config: RunConfig, data: TrainingData, report: Reporter
) -> dict[str, Any]:
    """The summary of a run that is there, trained to its end first if it was not."""
    try:
        if not (folder / CONFIG).is_file():
            return start_run(config, data, folder, report)
        run = RunFolder.open(folder)
        if run.read_config().to_dict() != config.to_dict():
            raise RunError(
                f"{folder}: was started with other settings; choose another folder with --out"
            )
        summary = run.read_summary()
        if summary.get("state") == "finished":
            return summary
        return resume_run(folder, config, data, report)
    except Interrupted:
        raise Interrupted(f"stopped in {folder}; the same command again goes on there") from None
