"""Settings of a run: how the model is trained and how the run is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from eigenformer.config.data import DataConfig
from eigenformer.config.networks import ModelConfig
from eigenformer.config.settings import ConfigError, Settings, require_positive
from eigenformer.devices import check_device
from eigenformer.options import Backend, InitialBias, Loss, Precision


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How a model is trained: AdamW, linear warm-up, then cosine decay to 0.

    Args:
        batch_size: Number of graphs per step, over all processes.
        learning_rate: Peak learning rate, reached after the warm-up.
        epochs: Length of the learning-rate schedule in epochs, including the warm-up.
        warmup_epochs: Length of the warm-up in epochs; may be fractional.
        epoch_steps: Number of steps per epoch, on a new sample of the graphs in each epoch; None
            to use all graphs once.
        weight_decay: Weight decay of AdamW.
        betas: Coefficients β₁ and β₂ of AdamW.
        eps: ε of AdamW.
        gradient_clip: Maximum norm of the gradient.
        freeze_norms_after: Share of the epochs after which batch norms keep their stored
            statistics, so that the prediction for a graph does not depend on its batch; 0 to
            freeze them from the start, as in fine-tuning on few graphs.
        recompute_statistics: Number of training batches over which the statistics of batch norms
            are recomputed before each validation; 0 to validate with the running statistics. The
            saved model has the statistics it was validated with.
        average_weights: Decay per step of an exponential moving average of the weights, such as
            0.995; 0, as in the paper, for none. The average is what is validated, saved and
            tested; training continues with the weights themselves. Requires
            ``recompute_statistics``, unless norms are frozen from the start.
        initial_bias: Initial bias of the head: ``random``, as in PyTorch's linear layers, or
            fitted to the training ``targets``: their mean, or the log-odds of the classes.
        loss: Loss of numbers, in units of the training targets' deviation: ``l1``, ``l2`` or
            ``huber`` (``l2`` up to one deviation, ``l1`` beyond); None for ``l1``. Classes and
            labels have the cross-entropy.
        class_balance: Whether class c of graphs has the weight (V − n_c)/V among the V values of
            a batch, as node classes always have. Rare classes and labels then count more, and
            their predicted probabilities are too high.
    """

    batch_size: int
    learning_rate: float
    epochs: int
    warmup_epochs: float
    epoch_steps: int | None = None
    weight_decay: float = 1e-5
    betas: tuple[float, ...] = (0.9, 0.99)
    eps: float = 1e-8
    gradient_clip: float = 1.0
    freeze_norms_after: float = 1.0
    recompute_statistics: int = 0
    average_weights: float = 0.0
    initial_bias: InitialBias = "random"
    loss: Loss | None = None
    class_balance: bool = False

    def check(self) -> None:
        require_positive(self, "batch_size", "epochs", "learning_rate", "eps", "gradient_clip")
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise ConfigError(f"warmup_epochs: {self.warmup_epochs:g} is not in [0, {self.epochs}]")
        if self.epoch_steps is not None and self.epoch_steps < 1:
            raise ConfigError(f"epoch_steps: must be at least 1, got {self.epoch_steps}")
        if self.weight_decay < 0:
            raise ConfigError(f"weight_decay: must not be negative, got {self.weight_decay}")
        if not 0 <= self.freeze_norms_after <= 1:
            raise ConfigError(
                f"freeze_norms_after: must be in [0, 1], got {self.freeze_norms_after}"
            )
        if self.recompute_statistics < 0:
            raise ConfigError(
                f"recompute_statistics: must not be negative, got {self.recompute_statistics}"
            )
        if not 0 <= self.average_weights < 1:
            raise ConfigError(f"average_weights: must be in [0, 1), got {self.average_weights}")
        if self.average_weights and not self.recompute_statistics and self.freeze_norms_after:
            raise ConfigError(
                "average_weights: requires recompute_statistics, such as 40, because the running "
                "statistics of batch norms do not fit averaged weights"
            )
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas: expected two numbers in [0, 1), got {self.betas}")

    @property
    def epochs_before_freezing(self) -> int:
        """Number of epochs that update the statistics of batch norms, rounded up."""
        return math.ceil(round(self.freeze_norms_after * self.epochs, 9))

    def with_epochs(self, epochs: int) -> TrainingConfig:
        """Returns a copy with another number of epochs and a warm-up scaled in proportion."""
        if epochs == self.epochs:
            return self  # 0.9 * 18 / 18 is not 0.9
        return self.replace(epochs=epochs, warmup_epochs=self.warmup_epochs * epochs / self.epochs)


@dataclass(frozen=True)
class RunConfig(Settings):
    """Everything that determines a run: with these settings and the same data it can be repeated.

    Args:
        data: Data to train on.
        preset: Name of the preset that the settings are based on.
        model: Architecture of the model.
        training: Optimiser and learning-rate schedule.
        seed: Seed of the initial weights, the order of the graphs, dropout and the sampling of
            frequencies.
        patience: Stop after this many epochs without improvement in validation; None to never
            stop early.
        start: Folder with a trained model to start from, or ``molecules`` for the weights that come
            with the package; None for new weights.
        threads: Number of PyTorch threads per process; None for PyTorch's default.
        device: Device to compute on: ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; ``auto`` for a GPU
            with CUDA if there is one, otherwise the CPU.
        devices: Number of processes (or GPUs) per machine.
        machines: Number of machines.
        precision: Floating-point precision: ``32``, ``64``, or mixed (``bf16`` or ``16``).
        backend: How attention is computed: ``auto``, ``native`` (CPU), ``triton`` (GPU), ``torch``
            or ``literal``. All are exact.
    """

    data: DataConfig
    preset: str
    model: ModelConfig
    training: TrainingConfig
    seed: int = 0
    patience: int | None = None
    start: str | None = None
    threads: int | None = None
    device: str = "auto"
    devices: int = 1
    machines: int = 1
    precision: Precision = "32"
    backend: Backend = "auto"

    def check(self) -> None:
        require_positive(self, "devices", "machines")
        self.model.check_backend(self.backend)
        if self.seed < 0:
            raise ConfigError(f"seed: must not be negative, got {self.seed}")
        for name in ("patience", "threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"{name}: must be at least 1, got {getattr(self, name)}")
        try:
            check_device(self.device)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        if self.devices > 1 and (self.device == "mps" or ":" in self.device):
            raise ConfigError(f"devices: {self.devices}, but '{self.device}' is a single device")
