"""Sets up Lightning's trainer for a run: devices, processes, precision, and fewer messages."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from eigenformer.config import ConfigError, RunConfig
from eigenformer.devices import lacks_bf16, resolve_device
from eigenformer.kernels import KERNELS, Request, choose_kernel
from eigenformer.models import Eigenformer, Model
from eigenformer.training.checkpoint_io import AtomicCheckpointIO
from eigenformer.training.processes import WatchedDDP
from eigenformer.training.run_folder import RunFolder

_PRECISION = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed", "16": "16-mixed"}


def check_hardware(config: RunConfig) -> None:
    """Raises an error if this machine does not support the settings.

    Lightning would change such settings, or wait.
    """
    try:
        device = resolve_device(config.device)
        if config.precision == "16" and device.type == "cpu":
            raise ConfigError("precision: '16' needs a GPU; use bf16 on the CPU")
        choose_kernel(Request(), config.backend)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if config.machines > 1 and not _is_torchrun() and "MASTER_ADDR" not in os.environ:
        raise ConfigError(
            f"machines: {config.machines}; set MASTER_ADDR, MASTER_PORT and NODE_RANK on "
            f"each machine, or start with torchrun"
        )


def other_kernel(config: RunConfig, model: Model) -> list[str]:
    """Returns a message if the chosen backend does not support the run, so that another is used."""
    if config.backend == "auto" or not isinstance(model, Eigenformer):
        return []
    dtype = torch.float64 if config.precision == "64" else torch.float32
    request = replace(model.request(), dtype=dtype, device=resolve_device(config.device))
    used = choose_kernel(request, config.backend)
    reasons = [k.unsupported(request) for k in KERNELS if k.name == config.backend != used.name]
    return [f"backend: {used.name} instead of {config.backend}: {reason}" for reason in reasons]


def slow_precision(config: RunConfig) -> list[str]:
    """Returns a message if the processor computes the chosen precision without instructions."""
    if config.precision != "bf16" or resolve_device(config.device).type != "cpu":
        return []
    slow = "this processor has no instructions for it (AVX512-BF16): 32 is many times as fast"
    return [f"precision: bf16: {slow}"] if lacks_bf16() else []


def make_trainer(
    config: RunConfig,
    callbacks: list[Callback],
    folder: RunFolder | None = None,
    **arguments: Any,
) -> pl.Trainer:
    """Returns a Lightning trainer for these settings. ``arguments`` override its own settings."""
    devices = int(os.environ["LOCAL_WORLD_SIZE"]) if _is_torchrun() else config.devices
    machines = processes(config) // devices
    device = resolve_device(config.device)
    cuda = device.type == "cuda"
    strategy: Any = "auto"
    if devices * machines > 1:
        # TrainingModule shares the running statistics once per epoch, not in every step.
        backend = "nccl" if cuda else "gloo"
        strategy = WatchedDDP(
            broadcast_buffers=False,
            process_group_backend=backend,
            find_unused_parameters=True,  # the bias of W_R cancels, so it has no gradient
        )
    settings: dict[str, Any] = {
        "accelerator": device.type,
        "devices": devices if device.index is None else [device.index],
        "num_nodes": machines,
        "strategy": strategy,
        "precision": _PRECISION[config.precision],
        "max_epochs": config.training.epochs,
        "gradient_clip_val": config.training.gradient_clip,
        "callbacks": callbacks,
        "logger": False,
        "plugins": [AtomicCheckpointIO()],
        "use_distributed_sampler": False,
        "sync_batchnorm": cuda and devices * machines > 1,
        "num_sanity_val_steps": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": True,
        "log_every_n_steps": 10**9,  # log epochs, not steps
        "default_root_dir": None if folder is None else folder.path,
    }
    return pl.Trainer(**{**settings, **arguments})


@contextmanager
def quiet() -> Iterator[None]:
    """Silences Lightning's log messages and warnings: a run prints its own messages."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    handler = (
        signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread()
        else None
    )
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
            signal.signal(signal.SIGINT, handler)  # Lightning ignores Ctrl-C after the first one


def is_first_process() -> bool:
    """Whether this is the process that writes files and messages."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0 and (
        int(os.environ.get("NODE_RANK", "0")) == 0
    )


@contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Sets the number of PyTorch's threads; None leaves it unchanged."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def processes(config: RunConfig) -> int:
    """Returns the number of processes on all machines."""
    return int(os.environ["WORLD_SIZE"]) if _is_torchrun() else config.devices * config.machines


def _is_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ
