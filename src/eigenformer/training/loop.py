"""Trains a model as a run with a folder, using Lightning's loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from eigenformer.config import RunConfig
from eigenformer.data.preparation import not_the_papers
from eigenformer.devices import resolve_device
from eigenformer.model_folder import read_card, read_weights
from eigenformer.models import Model, build_model
from eigenformer.reporting import Reporter, shown
from eigenformer.stopping import StopSignals
from eigenformer.targets import Target
from eigenformer.training.checkpoint_form import check_resumable
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.epoch_log import EpochLog
from eigenformer.training.event_file import EventFile
from eigenformer.training.loading import TrainingData
from eigenformer.training.module import TrainingError, TrainingModule
from eigenformer.training.planning import check_fit
from eigenformer.training.predicting import evaluate_each
from eigenformer.training.progress import Progress
from eigenformer.training.run_folder import RunError, RunFolder
from eigenformer.training.run_lock import run_lock
from eigenformer.training.run_writer import RunWriter
from eigenformer.training.starting import new_model
from eigenformer.training.stops import ListenToSignals, StopEarly
from eigenformer.training.trainer import (
    check_hardware,
    is_first_process,
    limited_threads,
    make_trainer,
    other_kernel,
    processes,
    quiet,
    slow_precision,
)


class Interrupted(Exception):
    """Training was stopped from outside; the complete epochs are kept."""


def start_run(
    config: RunConfig,
    data: TrainingData,
    out: str | Path,
    reporter: Reporter | None = None,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Trains a model from its first epoch and returns the run's summary.

    Args:
        config: The settings.
        data: The graphs to train on.
        out: The run folder. It must be new or empty.
        reporter: Prints messages.
        callbacks: Lightning's callbacks, to watch the training.
    """
    check_hardware(config)
    # First the model: if its weights do not fit, no folder is left behind.
    model, target, notes = new_model(
        config, data.target, data.targets("train"), data.descriptors("train"), data.limits
    )
    folder = RunFolder(Path(out))
    if is_first_process():
        RunFolder.create(out)
    with _claimed(folder):
        if is_first_process():
            RunFolder.check_new(out)  # another process may have begun in the meantime
            folder.write_config(config)
        reporter = reporter or Reporter()
        return _run(config, data, model, target, folder, reporter, notes, callbacks)


def resume_run(
    path: str | Path,
    config: RunConfig,
    data: TrainingData,
    reporter: Reporter | None = None,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Resumes a run after its last complete epoch and returns its summary."""
    folder = RunFolder.open(path)
    check_hardware(config)
    check_fit(config.model, data, f"the model of {path}")
    with _claimed(folder):  # what is read below cannot change any more
        return _resume(folder, config, data, reporter or Reporter(), callbacks)


def _resume(
    folder: RunFolder,
    config: RunConfig,
    data: TrainingData,
    reporter: Reporter,
    callbacks: Sequence[Callback],
) -> dict[str, Any]:
    folder.check_resumable()
    if not folder.checkpoint.exists():
        model, target, notes = new_model(
            config, data.target, data.targets("train"), data.descriptors("train"), data.limits
        )
        return _run(config, data, model, target, folder, reporter, notes, callbacks)
    folder.check_checkpoint()
    read_weights(folder.path)  # an unreadable file fails now, not after the last epoch
    summary = folder.read_summary()
    card = read_card(folder.path, data.limits)
    target = card.target or data.target
    counts = {name: len(graphs) for name, graphs in data.splits.items()}
    if summary.get("graphs", counts) != counts:
        raise RunError(
            f"{folder.path}: the data has changed since the run started (now {_counted(counts)}; "
            f"then {_counted(summary['graphs'])})"
        )
    if card.data_digest not in (None, data.digest):  # earlier versions did not record it
        raise RunError(
            f"{folder.path}: the data has changed since the run started (other features, edges, "
            f"targets or split); restore it, or start a new run"
        )
    if summary.get("state") == "finished":
        for line in ("the run is already finished", *_conclusion(summary, target, folder)):
            reporter.say(line)
        return summary
    # The weights come from the checkpoint. The model in `config.start` is no longer needed.
    model = build_model(config.model, config.backend)
    return _run(config, data, model, target, folder, reporter, (), callbacks)


@contextmanager
def _claimed(folder: RunFolder) -> Iterator[None]:
    """Holds the run folder for this run. With several processes, the first one holds it."""
    with run_lock(folder.path) if is_first_process() else nullcontext():
        yield


def _run(
    config: RunConfig,
    data: TrainingData,
    model: Model,
    target: Target,
    folder: RunFolder,
    reporter: Reporter,
    notes: Sequence[str],
    more: Sequence[Callback],
) -> dict[str, Any]:
    graphs = GraphDataModule(
        data.dataset("train"),
        data.dataset("val"),
        data.dataset("test") if len(data.splits["test"]) else None,
        config.training.batch_size,
        config.seed,
        config.training.epoch_steps,
    )
    module = TrainingModule(model, target, config.training, config.seed)
    writer = RunWriter(config, data, folder, model, target)
    progress = Progress()
    log = EpochLog(writer, progress.print_line)
    stop = StopSignals()
    callbacks: list[Callback] = [ListenToSignals(stop), progress, log, *more]
    if config.patience is not None:
        callbacks.append(StopEarly(module.monitor, config.patience, target.higher_is_better))
    first = is_first_process()
    if first:
        for line in (*notes, *_introduction(config, data, model, target, folder)):
            reporter.say(line)
    with quiet(), limited_threads(config.threads):
        trainer = make_trainer(config, callbacks, folder, logger=EventFile(folder.path))
        checkpoint = str(folder.checkpoint) if folder.checkpoint.exists() else None
        if checkpoint is not None:
            check_resumable(folder.checkpoint, module, list(model.parameters()))
        with _told(stop, log, writer, first):
            trainer.fit(module, datamodule=graphs, ckpt_path=checkpoint, weights_only=True)
            if first:
                _check_metric(log, target, reporter)
            test = _test(trainer, module, graphs, log)
            if first:
                writer.calibrate(module.validated)
        summary = writer.summary({**log.known(), "state": "finished", **test})
    if first:
        folder.write_summary(summary)
        for line in _conclusion(summary, target, folder):
            reporter.say(line)
    return summary


@contextmanager
def _told(stop: StopSignals, log: EpochLog, writer: RunWriter, first: bool) -> Iterator[None]:
    """Records why training ended early and leaves a usable run folder."""
    try:
        yield
    except BaseException as error:
        stopped = stop.asked or isinstance(error, KeyboardInterrupt | SystemExit)
        if first:
            reason = f"{type(error).__name__}: {error}"
            log.write_summary("interrupted" if stopped else "failed", error=reason)
        if stopped:
            raise Interrupted(
                f"stopped after {len(log.rows)} complete epochs; resume with  eigenformer "
                f"train --resume {writer.folder.path}"
            ) from None
        raise


def _check_metric(log: EpochLog, target: Target, reporter: Reporter) -> None:
    """Says so if the best epoch was not chosen by the metric."""
    if math.isnan(log.best):
        reporter.notice(
            f"val {target.metric} is undefined in every epoch, for example because the validation "
            f"set has only one class: the best epoch is the one with the lowest loss"
        )


def _test(
    trainer: pl.Trainer, module: TrainingModule, graphs: GraphDataModule, log: EpochLog
) -> dict[str, Any]:
    """Returns the metrics of the best weights on the test set."""
    state = {}
    if trainer.is_global_zero and log.writer is not None:
        log.check_best()
        state = read_weights(log.writer.folder.path)
    module.validated.load_state_dict(trainer.strategy.broadcast(state))
    if graphs.test is None:
        return {"test": None}
    trainer.test(module, datamodule=graphs, verbose=False)
    if not math.isfinite(module.logged["test_loss"]):
        raise TrainingError(
            f"predictions of epoch {log.best_epoch}, the best one, are not finite numbers on "
            f"the test set; check the data for extreme values"
        )
    values = {name: module.logged[f"test_{name}"] for name in module.target.metrics}
    each = evaluate_each(module.validated, graphs.test, module.target, graphs.batch_size)
    found = {"test": values[module.target.metric], "test_metrics": values}
    return {**found, "test_by_target": each} if each else found


def _introduction(
    config: RunConfig, data: TrainingData, model: Model, target: Target, folder: RunFolder
) -> list[str]:
    counts = _counted({name: len(graphs) for name, graphs in data.splits.items()})
    lines = [
        f"{data.name}: {target.describe()}, metric {target.metric}; graphs: {counts}",
        f"model: {config.model.title}, preset {config.preset}, {model.num_parameters()} "
        f"parameters; run folder {folder.path}",
        *other_kernel(config, model),
        *slow_precision(config),
    ]
    if processes(config) > 1 and resolve_device(config.device).type == "cpu":
        lines.append(
            "several CPU processes: batch norm is not synchronised (PyTorch does not support this "
            "on CPUs); each normalises its own share of a batch; running statistics are averaged"
        )
    return lines


def _conclusion(summary: dict[str, Any], target: Target, folder: RunFolder) -> list[str]:
    metric = target.metric
    lines = []
    if summary["best_epoch"]:
        best = _shown(metric, summary["best_validation"])
        lines.append(f"best epoch {summary['best_epoch']}: val {best}")
    if summary["test"] is not None:
        values = {metric: summary["test"], **summary.get("test_metrics", {})}
        told = ", ".join(_shown(name, value) for name, value in values.items())
        lines.append(f"test {told} (weights of the best epoch)")
    if found := summary.get("differences"):
        lines.append(not_the_papers(summary["dataset"], found))
    return [*lines, f"everything is in {folder.path}"]


def _counted(graphs: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in graphs.items())


def _shown(metric: str, value: float | None) -> str:
    return f"{metric} {'unknown' if value is None else shown(value)}"
