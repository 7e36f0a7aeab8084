"""The loop over variants and seeds that reproduction, ablations and comparisons share."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from eigenformer.config import ConfigError, RunConfig, merge
from eigenformer.data.workspace import Workspace
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import Reporter, TerminalReporter
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
    pool: Pool = HERE,
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
        pool: Where to train. Runs that are trained at the same time, each in its own process, write
            their messages to a file beside the run folder.
    """
    workspace = workspace or Workspace.resolve()
    _check(base, variants, seeds)
    jobs = [(variant, seed) for variant in variants for seed in seeds]
    if pool != HERE:
        _train_apart(base, jobs, Path(out), workspace, name, pool)
    for number, (variant, seed) in enumerate(jobs, 1):
        settings = _settings(base, variant, seed)
        config, data = plan(settings, workspace)
        if not len(data.splits["test"]):
            raise ConfigError(f"{config.data.dataset}: no graphs in the split 'test'")
        folder = Path(out) / name(config, data, variant)
        workspace.reporter.say(f"run {number} of {len(jobs)}: {folder}")
        summary = finish_run(folder, config, data, workspace.reporter)
        yield SweepRun(variant, seed, folder, config, data, summary)


def _settings(base: Mapping[str, Any], variant: Variant, seed: int) -> dict[str, Any]:
    return {**merge(base, variant.settings), "seed": seed}


def _train_apart(
    base: Mapping[str, Any],
    jobs: Sequence[tuple[Variant, int]],
    out: Path,
    workspace: Workspace,
    name: FolderName,
    pool: Pool,
) -> None:
    """Trains several runs at the same time, so that each is finished when it is asked for."""
    planned = []
    for variant, seed in jobs:
        settings = _settings(base, variant, seed)
        config, data = plan(settings, workspace)
        planned.append((settings, out / name(config, data, variant)))
    apart = replace(workspace, workers=1, reporter=TerminalReporter())
    with pool.open(end_with_parent) as workers:
        waiting = {workers.submit(_train_here, *job, apart): job[1] for job in planned}
        workspace.reporter.say(f"{len(waiting)} runs, {pool.size} at a time; messages: {out}/*.log")
        try:
            for done in as_completed(waiting):
                done.result()
                workspace.reporter.say(f"finished: {waiting[done]}")
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise


def _train_here(settings: dict[str, Any], folder: Path, workspace: Workspace) -> None:
    """Trains one run in a process of its own."""
    with messages_beside(folder):
        finish_run(folder, *plan(settings, workspace), workspace.reporter)


@contextmanager
def messages_beside(folder: Path) -> Iterator[None]:
    """Sends all messages to a file beside a run folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    messages = folder.with_name(f"{folder.name}.log")
    with messages.open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        yield


def end_with_parent() -> None:
    """Stops the run in this process, like Ctrl-C, as soon as the parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def finish_run(
    folder: Path,
    config: RunConfig,
    data: TrainingData,
    reporter: Reporter,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Starts or resumes a run unless it is finished, and returns its summary."""
    try:
        if not (folder / CONFIG).is_file():
            return start_run(config, data, folder, reporter, callbacks)
        run = RunFolder.open(folder)
        if run.read_config().to_dict() != config.to_dict():
            raise RunError(
                f"{folder}: started with other settings; choose another folder with --out"
            )
        summary = run.read_summary()
        if summary.get("state") == "finished":
            return summary
        return resume_run(folder, config, data, reporter, callbacks)
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
