"""A search for good settings: trials that Optuna suggests, each one a run (extra ``search``)."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from filelock import FileLock
from lightning.pytorch.callbacks import Callback

from eigenformer.config import ConfigError, merge
from eigenformer.data.workspace import Workspace
from eigenformer.experiments.search_space import Parameter, nested, searched
from eigenformer.experiments.sweep import end_with_parent, finish_run, messages_beside
from eigenformer.files import is_running
from eigenformer.pools import HERE, Pool
from eigenformer.reporting import SilentReporter, TerminalReporter
from eigenformer.targets import Target
from eigenformer.training.module import TrainingError, TrainingModule
from eigenformer.training.planning import plan

STORAGE = "trials.sqlite"
"""The file with all trials, unless another storage is given."""

_STUDY = "eigenformer"
_RESUMES = "resumes"


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Args:
        number: The number of the trial, counted from 0.
        state: ``complete``, ``pruned``, ``failed`` or ``running``.
        value: The best validation metric, or that of the last epoch of a pruned trial; NaN if there
            is none.
        settings: The settings that were tried, by their dotted names.
        folder: The run folder.
    """

    number: int
    state: str
    value: float
    settings: dict[str, Any]
    folder: Path


@dataclass(frozen=True)
class Search:
    """The results of a search.

    Args:
        name: The name of the data.
        metric: The validation metric.
        higher_is_better: Whether a higher value of the metric is better.
        trials: All trials, in their order.
    """

    name: str
    metric: str
    higher_is_better: bool
    trials: tuple[Trial, ...]

    @property
    def ranked(self) -> list[Trial]:
        """The complete trials, the best first."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return sorted(complete, key=lambda trial: trial.value, reverse=self.higher_is_better)


@dataclass(frozen=True)
class _Job:
    """What every worker of a search must know."""

    wanted: Mapping[str, Any]
    trials: int
    out: Path
    storage: str
    workspace: Workspace
    apart: bool
    host: str
    process: int


def search(
    wanted: Mapping[str, Any],
    trials: int,
    out: str | Path,
    storage: str | None = None,
    workspace: Workspace | None = None,
    pool: Pool = HERE,
) -> Search:
    """Searches for good settings. What an earlier search in the folder has found is used.

    Trials are judged by the validation metric alone. A trial that is worse than half of the others
    at the same point of its schedule is stopped. One that was killed is resumed.

    Args:
        wanted: The settings that all trials share, as :func:`plan` takes them. They are not
            searched.
        trials: The number of trials, with those of an earlier search.
        out: The folder of the run folders.
        storage: Where trials are recorded: the address of a database, as SQLAlchemy takes it, which
            several machines can share (default: a file in ``out``).
        workspace: The folders of raw files and prepared graphs (default: from the environment).
        pool: Where to train: how many trials at the same time, here or on a cluster.
    """
    workspace, out = workspace or Workspace.resolve(), Path(out)
    wanted = {"threads": 1, **wanted}
    config, data = plan(wanted, workspace)
    out.mkdir(parents=True, exist_ok=True)
    address = storage or f"sqlite:///{(out / STORAGE).resolve()}"
    # A trial belongs to this command, wherever it is run: its workers end with it.
    owner = platform.node(), os.getpid()
    job = _Job(wanted, trials, out.resolve(), address, workspace, pool != HERE, *owner)
    study = _study(address, data.target)
    name = f"{data.name}, {data.target.metric}, {config.model.kind}"
    if (known := study.user_attrs.get("what", name)) != name:
        raise ConfigError(f"storage: has the trials of another search ({known}); use another")
    study.set_user_attr("what", name)
    _revive(study, lambda trial: _is_left(trial, job.host))
    if pool == HERE:
        _work(job)
    else:
        apart = replace(job, workspace=replace(workspace, workers=1, reporter=TerminalReporter()))
        workspace.reporter.say(f"{trials} trials, {pool.size} at a time; messages: {out}/*.log")
        with pool.open(end_with_parent) as workers:
            lost = True
            while lost:
                waiting = [workers.submit(_work, apart) for _ in range(pool.size)]
                for worker in waiting:
                    worker.result()
                # No worker is left, so trials that still run were lost with a machine.
                lost = _revive(study, lambda trial: _owner(trial) == owner)
    known = study.get_trials(deepcopy=False)
    found = tuple(_told(trial, out) for trial in known if not _is_resumed(trial, known))
    target = data.target
    return Search(data.name, target.metric, target.higher_is_better, found)


def _work(job: _Job) -> None:
    """Runs trials until there are enough. Several workers share the storage."""
    import optuna

    config, data = plan(job.wanted, replace(job.workspace, reporter=SilentReporter()))
    space = searched(job.wanted, data.target, config.start is not None)
    study = _study(job.storage, data.target)
    while (trial := _next(study, job, space)) is not None:
        folder = job.out / _folder(trial)
        settings = merge(job.wanted, nested(trial.params))
        watch = _Watch(trial)
        try:
            with messages_beside(folder) if job.apart else nullcontext():
                config, data = plan(settings, job.workspace)
                job.workspace.reporter.say(f"trial {trial.number}: {_shown(trial.params)}")
                summary = finish_run(folder, config, data, job.workspace.reporter, (watch,))
        except TrainingError as error:  # for example a learning rate that is too high
            job.workspace.reporter.notice(f"trial {trial.number} failed: {error}")
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        value = float(summary["best_validation"])
        if watch.pruned:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif math.isfinite(value):
            study.tell(trial, value)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        if job.apart:
            print(f"trial {trial.number}: {'stopped early' if watch.pruned else value}", flush=True)


def _next(study: Any, job: _Job, space: tuple[Parameter, ...]) -> Any | None:
    """Returns the next trial with its settings; None if there are enough."""
    import optuna

    with FileLock(job.out / "search.lock"):  # so that workers do not start one too many
        known = study.get_trials(deepcopy=False)
        waiting = optuna.trial.TrialState.WAITING
        started = [t for t in known if t.state != waiting and not _is_resumed(t, known)]
        if len(started) >= job.trials and not any(t.state == waiting for t in known):
            return None
        # A function of the seed and the number of trials, so that a resumed search goes on alike.
        seed = int(job.wanted.get("seed", 0)) + 1000 * len(known)
        study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        trial = study.ask()
        trial.set_user_attr("host", job.host)
        trial.set_user_attr("process", job.process)
        for parameter in space:
            parameter.suggest(trial)
    return trial


def _revive(study: Any, is_lost: Callable[[Any], bool]) -> bool:
    """Puts running trials that are lost into the queue again, with the same settings.

    Returns whether there are any.
    """
    import optuna

    running = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
    lost = [trial for trial in running if is_lost(trial)]
    for trial in lost:
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        first = trial.user_attrs.get(_RESUMES, trial.number)
        study.enqueue_trial(trial.params, user_attrs={_RESUMES: first})
    return bool(lost)


def _owner(trial: Any) -> tuple[str | None, int | None]:
    """Returns the machine and the process of the command that started a trial."""
    return trial.user_attrs.get("host"), trial.user_attrs.get("process")


def _is_left(trial: Any, host: str) -> bool:
    """Whether a command on this machine started a trial and was killed."""
    machine, process = _owner(trial)
    return machine == host and (process is None or not is_running(process))


def _is_resumed(trial: Any, trials: list[Any]) -> bool:
    """Whether another trial goes on with the run of this one."""
    first = trial.user_attrs.get(_RESUMES, trial.number)
    later = (other for other in trials if other.number > trial.number)
    return any(other.user_attrs.get(_RESUMES) == first for other in later)


def _folder(trial: Any) -> str:
    return f"trial{trial.user_attrs.get(_RESUMES, trial.number):04d}"


def _study(storage: str, target: Target) -> Any:
    try:
        import optuna
    except ImportError:
        raise ImportError(
            "search needs Optuna: install it with  pip install 'eigenformer[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            storage=storage,
            study_name=_STUDY,
            load_if_exists=True,
            direction="maximize" if target.higher_is_better else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=20),
        )
    except Exception as error:  # of SQLAlchemy, or of the driver of a database
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"storage: cannot be used ({reason})") from None


def _told(trial: Any, out: Path) -> Trial:
    state = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}.get(trial.state.name)
    value = math.nan if trial.value is None else float(trial.value)
    return Trial(trial.number, state or "running", value, dict(trial.params), out / _folder(trial))


def _shown(settings: Mapping[str, Any]) -> str:
    words = (
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )
    return ", ".join(words)


class _Watch(Callback):
    """Tells Optuna the validation metric after every epoch, and stops a trial that is hopeless.

    Trials may have different numbers of epochs: they are compared at the same percentage.
    """

    def __init__(self, trial: Any) -> None:
        self.trial = trial
        self.pruned = False

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        epochs = trainer.max_epochs or 1
        value = pl_module.logged[f"val_{pl_module.target.metric}"]
        if not math.isfinite(value):
            return
        self.trial.report(value, round(100 * (trainer.current_epoch + 1) / epochs))
        if trainer.current_epoch + 1 < epochs and self.trial.should_prune():
            self.pruned = trainer.should_stop = True
