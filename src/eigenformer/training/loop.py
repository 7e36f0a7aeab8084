"""Trains a model as a run with a folder, using Lightning's loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback

from eigenformer.config import RunConfig
from eigenformer.devices import resolve_device
from eigenformer.model_folder import load_model, read_card, read_weights
from eigenformer.models import Model, build_model
from eigenformer.reporting import Reporter
from eigenformer.stopping import StopSignals
from eigenformer.targets import Target
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.epoch_log import EpochLog
from eigenformer.training.loading import TrainingData
from eigenformer.training.module import TrainingError, TrainingModule
from eigenformer.training.planning import check_fit, check_start
from eigenformer.training.progress import Progress
from eigenformer.training.run_folder import RunError, RunFolder
from eigenformer.training.run_lock import run_lock
from eigenformer.training.run_writer import RunWriter
from eigenformer.training.seeding import derived_seed
from eigenformer.training.stops import ListenToSignals, PostponingLogger, StopEarly
from eigenformer.training.trainer import (
    check_hardware,
    is_first_process,
    limited_threads,
    make_trainer,
    other_kernel,
    processes,
    quiet,
)


class Interrupted(Exception):
    """Training was stopped from outside; the complete epochs are kept."""


def start_run(
    config: RunConfig, data: TrainingData, out: str | Path, reporter: Reporter | None = None
) -> dict[str, Any]:
    """Trains a model from its first epoch and returns the run's summary.

    Args:
        config: The settings.
        data: The graphs to train on.
        out: The run folder. It must be new or empty.
        reporter: Prints messages.
    """
    check_hardware(config)
    # First the model: if its weights do not fit, no folder is left behind.
    model, target, notes = new_model(config, data.target, data.targets("train"))
    folder = RunFolder(Path(out))
    if is_first_process():
        RunFolder.create(out)
    with _claimed(folder):
        if is_first_process():
            RunFolder.check_new(out)  # another process may have begun in the meantime
            folder.write_config(config)
        return _run(config, data, model, target, folder, reporter or Reporter(), notes)


def resume_run(
    path: str | Path, config: RunConfig, data: TrainingData, reporter: Reporter | None = None
) -> dict[str, Any]:
    """Resumes a run after its last complete epoch and returns its summary."""
    folder = RunFolder.open(path)
    check_hardware(config)
    check_fit(config.model, data, f"the model of {path}")
    with _claimed(folder):  # what is read below cannot change any more
        return _resume(folder, config, data, reporter or Reporter())


def _resume(
    folder: RunFolder, config: RunConfig, data: TrainingData, reporter: Reporter
) -> dict[str, Any]:
    folder.check_resumable()
    if not folder.checkpoint.exists():
        model, target, notes = new_model(config, data.target, data.targets("train"))
        return _run(config, data, model, target, folder, reporter, notes)
    folder.check_checkpoint()
    read_weights(folder.path)  # an unreadable file fails now, not after the last epoch
    summary, target = folder.read_summary(), read_card(folder.path).target or data.target
    counts = {name: len(graphs) for name, graphs in data.splits.items()}
    if summary.get("graphs", counts) != counts:
        raise RunError(
            f"{folder.path}: the data has changed since the run started (now {_counted(counts)}; "
            f"then {_counted(summary['graphs'])})"
        )
    if summary.get("state") == "finished":
        for line in ("the run is already finished", *_conclusion(summary, target, folder)):
            reporter.say(line)
        return summary
    # The weights come from the checkpoint. The model in `config.start` is no longer needed.
    return _run(config, data, build_model(config.model, config.backend), target, folder, reporter)


@contextmanager
def _claimed(folder: RunFolder) -> Iterator[None]:
    """Holds the run folder for this run. With several processes, the first one holds it."""
    with run_lock(folder.path) if is_first_process() else nullcontext():
        yield


def new_model(
    config: RunConfig, target: Target, targets: np.ndarray
) -> tuple[Model, Target, list[str]]:
    """Returns the model to train, its target, and messages for the user.

    If ``config.start`` is set, the weights are copied from the model in that folder. An encoder
    is copied only if its settings are the same. The head, and with it the standardisation of the
    targets, is copied only if the task is the same.

    Args:
        config: The settings of the run.
        target: What is predicted.
        targets: The training targets. The initial bias of the head may be computed from them.
    """
    torch.manual_seed(derived_seed(config.seed, "weights"))
    model = build_model(config.model, config.backend)
    if config.training.initial_bias == "targets":
        start_at_targets(model, target, targets)
    if config.start is None:
        return model, target, []
    source, card = load_model(config.start)
    check_start(config.start, card.architecture, config.model.kind)
    same_task = card.target is not None and card.target.same_as(target)
    fresh = [] if same_task else ["head"]
    for part in ("node_encoder", "edge_encoder"):
        if getattr(card.architecture, part) != getattr(config.model, part):
            fresh.append(part)
    theirs, ours = card.architecture.to_dict(), config.model.to_dict()
    differences = ", ".join(
        f"model.{name} is {theirs.get(name)}, expected {ours[name]}"
        for name in ours
        if theirs.get(name) != ours[name] and name not in (*fresh, "out_channels")
    )
    own = model.state_dict()
    taken = {k: v for k, v in source.state_dict().items() if k.split(".")[0] not in fresh}
    for name, tensor in taken.items():
        if name not in own or own[name].shape != tensor.shape:
            raise RunError(f"{config.start}: the model does not match the settings: {differences}")
    for name in own:
        if name not in taken and name.split(".")[0] not in fresh:
            raise RunError(f"{config.start}: the model does not match the settings: {differences}")
    model.load_state_dict({**own, **taken})
    if same_task and card.target is not None:
        target = card.target.judged(target.judged_by)
    said = f"starting from {config.start}"
    return model, target, [f"{said}; newly initialised: {', '.join(fresh)}" if fresh else said]


@torch.no_grad()
def start_at_targets(model: Model, target: Target, targets: np.ndarray) -> None:
    """Sets the bias of a model's head to the constant prediction that fits the targets."""
    bias = target.initial_bias(targets)
    if bias is not None and model.output_bias is not None:
        model.output_bias.copy_(bias)


def _run(
    config: RunConfig,
    data: TrainingData,
    model: Model,
    target: Target,
    folder: RunFolder,
    reporter: Reporter,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    module = GraphDataModule(
        data.dataset("train"),
        data.dataset("val"),
        data.dataset("test") if len(data.splits["test"]) else None,
        config.training.batch_size,
        config.seed,
    )
    task = TrainingModule(model, target, config.training, config.seed)
    record = RunWriter(config, data, folder, model, target)
    progress = Progress()
    recorder = EpochLog(record, progress.print_line)
    stop = StopSignals()
    callbacks: list[Callback] = [ListenToSignals(stop), progress, recorder]
    if config.patience is not None:
        callbacks.append(StopEarly(task.monitor, config.patience, target.higher_is_better))
    first = is_first_process()
    if first:
        for line in (*notes, *_introduction(config, data, model, target, folder)):
            reporter.say(line)
    with quiet(), limited_threads(config.threads):
        logger = PostponingLogger(folder.path, stop)
        trainer = make_trainer(config, callbacks, folder, logger=logger)
        checkpoint = str(folder.checkpoint) if folder.checkpoint.exists() else None
        with _told(stop, recorder, record, first):
            trainer.fit(task, datamodule=module, ckpt_path=checkpoint, weights_only=True)
            if first:
                _check_metric(recorder, target, reporter)
            test = _test(trainer, task, module, recorder)
        summary = record.summary({**recorder.known(), "state": "finished", **test})
    if first:
        folder.write_summary(summary)
        for line in _conclusion(summary, target, folder):
            reporter.say(line)
    return summary


@contextmanager
def _told(stop: StopSignals, recorder: EpochLog, record: RunWriter, first: bool) -> Iterator[None]:
    """Records why training ended early and leaves a usable run folder."""
    try:
        yield
    except BaseException as error:
        stopped = stop.asked or isinstance(error, KeyboardInterrupt | SystemExit)
        if first:
            reason = f"{type(error).__name__}: {error}"
            recorder.write_summary("interrupted" if stopped else "failed", error=reason)
        if stopped:
            raise Interrupted(
                f"stopped after {len(recorder.rows)} complete epochs; resume with  eigenformer "
                f"train --resume {record.folder.path}"
            ) from None
        raise


def _check_metric(recorder: EpochLog, target: Target, reporter: Reporter) -> None:
    """Says so if the best epoch was not chosen by the metric."""
    if math.isnan(recorder.best):
        reporter.notice(
            f"val {target.metric} is undefined in every epoch, for example because the validation "
            f"set has only one class: the best epoch is the one with the lowest loss"
        )


def _test(
    trainer: pl.Trainer, task: TrainingModule, module: GraphDataModule, recorder: EpochLog
) -> dict[str, Any]:
    """Returns the metrics of the best weights on the test set."""
    state = {}
    if trainer.is_global_zero and recorder.writer is not None:
        recorder.check_best()
        state = read_weights(recorder.writer.folder.path)
    task.validated.load_state_dict(trainer.strategy.broadcast(state))
    if module.test is None:
        return {"test": None}
    trainer.test(task, datamodule=module, verbose=False)
    if not math.isfinite(task.logged["test_loss"]):
        raise TrainingError(
            f"predictions of epoch {recorder.best_epoch}, the best one, are not finite numbers on "
            f"the test set; check the data for extreme values"
        )
    values = {name: task.logged[f"test_{name}"] for name in task.target.metrics}
    return {"test": values[task.target.metric], "test_metrics": values}


def _introduction(
    config: RunConfig, data: TrainingData, model: Model, target: Target, folder: RunFolder
) -> list[str]:
    counts = _counted({name: len(graphs) for name, graphs in data.splits.items()})
    lines = [
        f"{data.name}: {target.describe()}, metric {target.metric}; graphs: {counts}",
        f"model: {config.model.title}, preset {config.preset}, {model.num_parameters()} "
        f"parameters; run folder {folder.path}",
        *other_kernel(config, model),
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
        shown = ", ".join(_shown(name, value) for name, value in values.items())
        lines.append(f"test {shown} (weights of the best epoch)")
    return [*lines, f"everything is in {folder.path}"]


def _counted(graphs: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in graphs.items())


def _shown(metric: str, value: float | None) -> str:
    return f"{metric} {'unknown' if value is None else f'{value:.4f}'}"
