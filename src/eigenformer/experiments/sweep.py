"""The loop over variants and seeds that reproduction, ablations, folds and searches share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenformer.config import ConfigError, RunConfig, merge
from eigenformer.data.workspace import Workspace
from eigenformer.reporting import Reporter
from eigenformer.training.loading import TrainingData
from eigenformer.training.loop import Interrupted, resume_run, start_run
from eigenformer.training.planning import plan
from eigenformer.training.run_folder import CONFIG, RunError, RunFolder


@dataclass(frozen=True)
class Variant:
    """Settings that differ from those shared by all runs of a sweep.

    Args:
        name: The name of the variant, also used in folder names; may be empty.
        settings: The settings, by section: ``{"model": {"layers": 4}}``.
    """

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class SweepRun:
    """One trained run of a sweep.

    Args:
        variant: The variant.
        seed: The seed.
        folder: The run folder.
        config: All settings of the run.
        data: The training data.
        summary: The summary of the run.
    """

    variant: Variant
    seed: int
    folder: Path
    config: RunConfig
    data: TrainingData
    summary: dict[str, Any]


FolderName = Callable[[RunConfig, TrainingData, Variant], str]


def folder_name(config: RunConfig, data: TrainingData, variant: Variant) -> str:
    """Returns the default name of a run folder: data, preset, variant and seed."""
    parts = (data.name, config.preset, variant.name, f"seed{config.seed}")
    return "-".join(filter(None, parts))


def sweep(
    base: Mapping[str, Any],
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    workspace: Workspace | None = None,
    name: FolderName = folder_name,
) -> Iterator[SweepRun]:
    """Trains every variant for every seed, and yields each run when it is finished.

    Finished runs are not trained again. Stopped runs are resumed.

    Args:
        base: The settings that all runs share, as :func:`plan` takes them.
        variants: The variants to train.
        seeds: The seeds of each variant.
        out: The folder of the run folders.
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        name: A function that returns the name of a run folder.
    """
    workspace = workspace or Workspace.resolve()
    _check(base, variants, seeds)
    count = len(variants) * len(seeds)
    for number, (variant, seed) in enumerate(((v, s) for v in variants for s in seeds), 1):
        settings = {**merge(base, variant.settings), "seed": seed}
        config, data = plan(settings, workspace)
        if not len(data.splits["test"]):
            raise ConfigError(f"{config.data.dataset}: no graphs in the split 'test'")
        folder = Path(out) / name(config, data, variant)
        workspace.reporter.say(f"run {number} of {count}: {folder}")
        summary = finish_run(folder, config, data, workspace.reporter)
        yield SweepRun(variant, seed, folder, config, data, summary)


def finish_run(
    folder: Path, config: RunConfig, data: TrainingData, reporter: Reporter
) -> dict[str, Any]:
    """Starts or resumes a run unless it is finished, and returns its summary."""
    try:
        if not (folder / CONFIG).is_file():
            return start_run(config, data, folder, reporter)
        run = RunFolder.open(folder)
        if run.read_config().to_dict() != config.to_dict():
            raise RunError(
                f"{folder}: started with other settings; choose another folder with --out"
            )
        summary = run.read_summary()
        if summary.get("state") == "finished":
            return summary
        return resume_run(folder, config, data, reporter)
    except Interrupted:
        raise Interrupted(f"stopped in {folder}; run the same command again to resume") from None


def _check(base: Mapping[str, Any], variants: Sequence[Variant], seeds: Sequence[int]) -> None:
    if not seeds or not variants:
        raise ConfigError("a sweep needs at least one variant and one seed")
    names = [variant.name for variant in variants]
    for what, values in (("variants", names), ("seeds", seeds)):
        twice = [str(value) for value in values if list(values).count(value) > 1]
        if twice:
            raise ConfigError(f"{what}: '{twice[0]}' appears twice")
    for variant in variants:
        for section, settings in variant.settings.items():
            for setting in settings if isinstance(settings, Mapping) else ():
                if setting in base.get(section, {}):
                    raise ConfigError(
                        f"{section}.{setting}: cannot be set, because the variants change it"
                    )
