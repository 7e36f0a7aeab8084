"""Training a model, with Lightning's loop: in memory, or as a run with a folder."""

from __future__ import annotations

import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy

from eigenformer.config import RunConfig
from eigenformer.data.progress import Reporter
from eigenformer.model import Eigenformer
from eigenformer.model_folder import ModelCard, Outputs, load_model, read_weights, save_model
from eigenformer.training.checkpoint_io import AtomicCheckpointIO
from eigenformer.training.data_module import GraphDataModule
from eigenformer.training.inputs import TrainingData, describe
from eigenformer.training.progress import Progress
from eigenformer.training.recorder import Recorder
from eigenformer.training.run_folder import LOGS, RunError, RunFolder, git_revision, versions
from eigenformer.training.seeding import derived_seed
from eigenformer.training.task import EigenformerTask

_PRECISION = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed", "16": "16-mixed"}


class Interrupted(Exception):
    """Training was stopped from outside; what was done is kept."""


def start_run(
    config: RunConfig, data: TrainingData, out: str | Path, report: Reporter | None = None
) -> dict[str, Any]:
    """Trains a model from its first epoch and returns the run's summary.

    Args:
        config: The settings.
        data: What to train on.
        out: The run folder, which must not be there yet.
        report: What to tell whom.
    """
    if is_first_process():
        folder = RunFolder.create(out)
        folder.write_config(config)
    return _run(config, data, RunFolder(Path(out)), report or Reporter())


def resume_run(
    path: str | Path, config: RunConfig, data: TrainingData, report: Reporter | None = None
) -> dict[str, Any]:
    """Goes on with a run from its last complete epoch and returns its summary."""
    folder = RunFolder.open(path)
    if folder.checkpoint.exists():
        folder.check_checkpoint()
    return _run(config, data, folder, report or Reporter())


def make_trainer(
    config: RunConfig,
    callbacks: list[Callback],
    folder: RunFolder | None = None,
    **arguments: Any,
) -> pl.Trainer:
    """A Lightning trainer for these settings. Settings of its own may be added."""
    devices = int(os.environ["LOCAL_WORLD_SIZE"]) if _is_torchrun() else config.devices
    machines = _processes(config) // devices
    cuda = torch.cuda.is_available()
    strategy: Any = "auto"
    if devices * machines > 1:
        # Running statistics are shared once per epoch (EigenformerTask), not in every step.
        backend = "nccl" if cuda else "gloo"
        strategy = DDPStrategy(broadcast_buffers=False, process_group_backend=backend)
    settings: dict[str, Any] = {
        "accelerator": "gpu" if cuda else "cpu",
        "devices": devices,
        "num_nodes": machines,
        "strategy": strategy,
        "precision": _PRECISION[config.precision],
        "max_epochs": config.training.epochs,
        "gradient_clip_val": config.training.gradient_clip,
        "callbacks": callbacks,
        "logger": False
        if folder is None
        else TensorBoardLogger(folder.path, name=LOGS, version="", default_hp_metric=False),
        "plugins": [AtomicCheckpointIO()],
        "use_distributed_sampler": False,
        "sync_batchnorm": cuda and devices * machines > 1,
        "num_sanity_val_steps": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": True,
        "log_every_n_steps": 10**9,  # epochs are logged, steps are not
        "default_root_dir": None if folder is None else folder.path,
    }
    return pl.Trainer(**{**settings, **arguments})


def new_model(config: RunConfig, outputs: Outputs) -> tuple[Eigenformer, Outputs, list[str]]:
    """The model to train, what it predicts, and what to say about it.

    With ``config.start``, what fits is taken from the model there; its head, and with it the
    standardisation of its targets, where the task is the same.
    """
    torch.manual_seed(derived_seed(config.seed, "weights"))
    model = Eigenformer(config.model)
    if config.start is None:
        return model, outputs, []
    source, card = load_model(config.start)
    same_task = card.outputs is not None and card.outputs.same_task(outputs)
    fresh = [] if same_task else ["head"]
    for part in ("node_encoder", "edge_encoder"):
        if getattr(card.architecture, part) != getattr(config.model, part):
            fresh.append(part)
    own = model.state_dict()
    taken = {k: v for k, v in source.state_dict().items() if k.split(".")[0] not in fresh}
    for name, tensor in taken.items():
        if name not in own or own[name].shape != tensor.shape:
            raise RunError(f"{config.start}: its '{name}' does not fit what was asked for")
    for name in own:
        if name not in taken and name.split(".")[0] not in fresh:
            raise RunError(f"{config.start}: has no '{name}', which was asked for")
    model.load_state_dict({**own, **taken})
    if same_task and card.outputs is not None:
        outputs = replace(outputs, mean=card.outputs.mean, scale=card.outputs.scale)
    said = f"starts from {config.start}"
    return model, outputs, [f"{said}; new: {', '.join(fresh)}" if fresh else said]


@contextmanager
def quiet() -> Iterator[None]:
    """Lightning says what it does through logging and warnings; here the run says it itself."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    handler = signal.getsignal(signal.SIGINT) if _is_main_thread() else None
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (UserWarning, FutureWarning, DeprecationWarning):
                warnings.filterwarnings(
                    "ignore", category=category, module=r"(lightning|torch|torchmetrics)\b"
                )
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if handler is not None:
            signal.signal(signal.SIGINT, handler)  # Lightning ignores it after the first one


def is_first_process() -> bool:
    """Whether this process is the one that writes."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0 and (
        int(os.environ.get("NODE_RANK", "0")) == 0
    )


def _run(
    config: RunConfig, data: TrainingData, folder: RunFolder, report: Reporter
) -> dict[str, Any]:
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    model, outputs, notes = new_model(config, data.outputs)
    module = GraphDataModule(
        data.dataset("train"),
        data.dataset("val"),
        data.dataset("test") if len(data.splits["test"]) else None,
        config.training.batch_size,
        config.seed,
    )
    task = EigenformerTask(model, outputs, config.training, config.seed)
    record = _Record(config, data, folder, model, outputs)
    progress = Progress()
    recorder = Recorder(folder, record.save_best, record.summary, progress.print_line)
    callbacks: list[Callback] = [progress, recorder]
    if config.patience is not None:
        mode = "max" if outputs.higher_is_better else "min"
        callbacks.append(
            EarlyStopping(task.monitor, patience=config.patience, mode=mode, check_finite=False)
        )
    first = is_first_process()
    if first:
        for line in (*notes, *_introduction(config, data, model, outputs, folder)):
            report.say(line)
    with quiet():
        trainer = make_trainer(config, callbacks, folder)
        checkpoint = str(folder.checkpoint) if folder.checkpoint.exists() else None
        _fit(trainer, task, module, checkpoint, recorder, record, first)
        test = _test(trainer, task, module, folder, first)
    recorder.write_summary("finished", **test) if first else None
    summary = record.summary({**recorder.known(), "state": "finished", **test})
    if first:
        for line in _conclusion(summary, outputs, folder):
            report.say(line)
    return summary


def _fit(
    trainer: pl.Trainer,
    task: EigenformerTask,
    module: GraphDataModule,
    checkpoint: str | None,
    recorder: Recorder,
    record: _Record,
    first: bool,
) -> None:
    try:
        trainer.fit(task, datamodule=module, ckpt_path=checkpoint, weights_only=True)
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt | SystemExit) or trainer.received_sigterm
        if first and recorder.folder is not None:
            if not recorder.best_epoch:  # not one epoch: still a folder that can be used
                record.save_best(0, float("nan"))
            recorder.write_summary("interrupted" if stopped else "failed", error=_reason(error))
        if stopped:
            raise Interrupted(
                f"stopped after {len(recorder.rows)} complete epochs; go on with  eigenformer "
                f"train --resume {record.folder.path}"
            ) from None
        raise


def _test(
    trainer: pl.Trainer,
    task: EigenformerTask,
    module: GraphDataModule,
    folder: RunFolder,
    first: bool,
) -> dict[str, Any]:
    """The metrics of the best weights on the test set."""
    state = read_weights(folder.path) if first else {}
    task.model.load_state_dict(trainer.strategy.broadcast(state))
    if module.test is None:
        return {"test": None}
    trainer.test(task, datamodule=module, verbose=False)
    return {"test": task.report[f"test_{task.outputs.metric}"]}


class _Record:
    """What a run writes besides its checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        data: TrainingData,
        folder: RunFolder,
        model: Eigenformer,
        outputs: Outputs,
    ) -> None:
        self.config, self.data, self.folder = config, data, folder
        self.model, self.outputs = model, outputs
        self.started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.revision = git_revision()

    def save_best(self, epoch: int, validation: float) -> None:
        card = ModelCard(
            architecture=self.config.model,
            outputs=self.outputs,
            # Only the file's name: the folder may be given away.
            data=replace(self.config.data, dataset=Path(self.config.data.dataset).name),
            preset=self.config.preset,
            seed=self.config.seed,
            epoch=epoch,
            validation=None if validation != validation else validation,
        )
        save_model(self.folder.path, self.model, card)

    def summary(self, known: dict[str, Any]) -> dict[str, Any]:
        config = self.config
        return {
            "dataset": config.data.dataset,
            "preset": config.preset,
            "seed": config.seed,
            "metric": self.outputs.metric,
            "parameters": self.model.num_parameters(),
            "epochs_planned": config.training.epochs,
            "graphs": {name: len(graphs) for name, graphs in self.data.splits.items()},
            "limit": config.data.limit,
            "size": config.data.size,
            **known,
            "threads": torch.get_num_threads(),
            "processes": _processes(config),
            "started": self.started,
            "versions": versions(),
            "git_revision": self.revision,
        }


def _introduction(
    config: RunConfig, data: TrainingData, model: Eigenformer, outputs: Outputs, folder: RunFolder
) -> list[str]:
    counts = ", ".join(f"{name} {len(graphs)}" for name, graphs in data.splits.items())
    lines = [
        f"{data.name}: {describe(outputs)}, judged by {outputs.metric}; graphs: {counts}",
        f"model: preset {config.preset}, {model.num_parameters()} parameters; run folder "
        f"{folder.path}",
    ]
    if _processes(config) > 1 and not torch.cuda.is_available():
        lines.append(
            "several CPU processes: batch norm is not synchronised among them (PyTorch has none "
            "for CPU); each uses its own share of a batch, running statistics are averaged"
        )
    return lines


def _conclusion(summary: dict[str, Any], outputs: Outputs, folder: RunFolder) -> list[str]:
    metric = outputs.metric
    lines = []
    if summary["best_epoch"]:
        lines.append(
            f"best epoch {summary['best_epoch']}: val {metric} {summary['best_validation']:.4f}"
        )
    if summary["test"] is not None:
        lines.append(f"test {metric} {summary['test']:.4f} (of the best epoch's weights)")
    return [*lines, f"everything is in {folder.path}"]


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _processes(config: RunConfig) -> int:
    return int(os.environ["WORLD_SIZE"]) if _is_torchrun() else config.devices * config.machines


def _is_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def _is_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
