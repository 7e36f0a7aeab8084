"""The settings of a run: its training, and how it is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eigenformer.config.data import DataConfig
from eigenformer.config.model import ModelConfig
from eigenformer.config.settings import ConfigError, Settings, require_positive
from eigenformer.options import Backend, InitialBias, Precision


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How a model is trained: AdamW, linear warm-up, then cosine decay to 0.

    Args:
        batch_size: Graphs per step, over all processes.
        learning_rate: Its peak.
        epochs: Length of the schedule.
        warmup_epochs: Of which warm-up; may be a fraction of an epoch.
        weight_decay: AdamW's.
        betas: AdamW's.
        eps: AdamW's.
        gradient_clip: Largest norm of the gradient.
        freeze_norms_after: The share of the epochs after which batch norms keep their stored
            statistics, so that a graph's prediction does not depend on its batch; 0 for all of
            them, as in fine-tuning on few graphs.
        recompute_statistics: Before each validation, recompute the statistics of batch norms over
            this many training batches; 0 to validate with the running ones. The model that is
            saved has the statistics it was validated with.
        initial_bias: The bias of the head at the start: ``random``, as in PyTorch's linear layers,
            or what suits the training ``targets``: their mean, or the log-odds of classes.
    """

    batch_size: int
    learning_rate: float
    epochs: int
    warmup_epochs: float
    weight_decay: float = 1e-5
    betas: tuple[float, ...] = (0.9, 0.99)
    eps: float = 1e-8
    gradient_clip: float = 1.0
    freeze_norms_after: float = 1.0
    recompute_statistics: int = 0
    initial_bias: InitialBias = "random"

    def check(self) -> None:
        require_positive(self, "batch_size", "epochs", "learning_rate", "eps", "gradient_clip")
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise ConfigError(f"warmup_epochs: {self.warmup_epochs:g} of {self.epochs} epochs")
        if self.weight_decay < 0:
            raise ConfigError(f"weight_decay: must not be negative, got {self.weight_decay}")
        if not 0 <= self.freeze_norms_after <= 1:
            raise ConfigError(
                f"freeze_norms_after: a share in [0, 1], got {self.freeze_norms_after}"
            )
        if self.recompute_statistics < 0:
            raise ConfigError(
                f"recompute_statistics: must not be negative, got {self.recompute_statistics}"
            )
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas: takes two numbers in [0, 1), got {self.betas}")

    @property
    def epochs_before_freezing(self) -> int:
        """How many epochs renew batch norm's statistics; a part of an epoch counts as one."""
        return math.ceil(round(self.freeze_norms_after * self.epochs, 9))

    def with_epochs(self, epochs: int) -> TrainingConfig:
        """Another length, the warm-up in proportion."""
        return self.replace(epochs=epochs, warmup_epochs=self.warmup_epochs * epochs / self.epochs)


@dataclass(frozen=True)
class RunConfig(Settings):
    """Everything that decides how a run goes: with the same data it can be repeated from this.

    Args:
        data: What to train on.
        preset: The model the settings started from.
        model: The architecture.
        training: The optimiser and its schedule.
        seed: Of the weights, the order of the graphs, dropout and frequency draws.
        patience: Stop after this many epochs without a better validation; None for never.
        start: A folder with a trained model to start from.
        threads: Of PyTorch, per process; None for its own choice.
        devices: Processes (or GPUs) per machine.
        machines: How many machines.
        precision: ``32``, ``64``, or mixed: ``bf16``, ``16``.
        backend: How attention is computed: ``auto``, ``native``, ``torch`` or ``literal``. All
            are exact.
    """

    data: DataConfig
    preset: str
    model: ModelConfig
    training: TrainingConfig
    seed: int = 0
    patience: int | None = None
    start: str | None = None
    threads: int | None = None
    devices: int = 1
    machines: int = 1
    precision: Precision = "32"
    backend: Backend = "auto"

    def check(self) -> None:
        require_positive(self, "devices", "machines")
        if self.seed < 0:
            raise ConfigError(f"seed: must not be negative, got {self.seed}")
        for name in ("patience", "threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be at least 1, got {getattr(self, name)}")
