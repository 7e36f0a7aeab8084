"""Schedules that fit a budget of processor time: measure a few steps, then choose the epochs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from eigenformer.config import ConfigError, RunConfig, TrainingConfig
from eigenformer.training.data_module import EpochBatches, GraphDataModule
from eigenformer.training.loading import TrainingData
from eigenformer.training.loop import new_model
from eigenformer.training.module import TrainingModule
from eigenformer.training.trainer import limited_threads, make_trainer, quiet

# The first steps load libraries and grow buffers. They are not counted.
_WARM_UP = 2
# Measured steps: at least the first number, and more until the seconds are over.
_LEAST, _MOST, _SECONDS = 10, 200, 20.0
_VALIDATION_STEPS = 5


@dataclass(frozen=True)
class StepTimes:
    """What training costs, in processor seconds.

    Args:
        step: One training step.
        validation: One validation, on the whole validation set.
    """

    step: float
    validation: float


def measure_times(config: RunConfig, data: TrainingData) -> StepTimes:
    """Trains and validates for a few steps, in the same way as a run, and measures them."""
    model, target, _ = new_model(config, data.target, data.targets("train"))
    size = config.training.batch_size
    module = GraphDataModule(data.dataset("train"), data.dataset("val"), None, size, config.seed)
    clock = _Clock()
    with quiet(), limited_threads(config.threads):
        limits = {"limit_train_batches": _WARM_UP + _MOST, "limit_val_batches": _VALIDATION_STEPS}
        trainer = make_trainer(
            config, [clock], None, max_epochs=1, enable_checkpointing=False, **limits
        )
        trainer.fit(TrainingModule(model, target, config.training, config.seed), datamodule=module)
    return clock.times(len(EpochBatches(len(module.val), size)))


def fit_schedule(
    training: TrainingConfig, times: StepTimes, graphs: int, seconds: float
) -> TrainingConfig:
    """Returns the training with a schedule that ends when the processor time is used up.

    The last epoch is shared by all epochs: each has a few steps less than all graphs need. If not
    even one epoch fits, there is one, on a part of the graphs. The warm-up scales in proportion.

    Args:
        training: The training settings.
        times: What a step and a validation cost.
        graphs: The number of training graphs.
        seconds: The processor time.
    """
    full = len(EpochBatches(graphs, training.batch_size, 0))
    fitting = seconds / (full * times.step + times.validation)

    def steps_in(epochs: int) -> int:
        return math.floor((seconds / epochs - times.validation) / times.step)

    epochs = max(1, math.ceil(fitting))
    if epochs > 1 and steps_in(epochs) < full / 2:  # one more validation would cost too much
        epochs -= 1
    steps = steps_in(epochs)
    if steps < 1:
        raise ConfigError(
            f"hours: {seconds / 3600:.3g} is too short for a step and a validation, which take "
            f"{(times.step + times.validation) / 3600:.3g} processor hours"
        )
    return training.with_epochs(epochs).replace(epoch_steps=steps if steps < full else None)


class _Clock(Callback):
    """Notes the processor time around the steps."""

    def __init__(self) -> None:
        self.train: list[float] = []
        self.validation: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.train.append(time.process_time())
        enough = len(self.train) > _WARM_UP + _LEAST
        if enough and self.train[-1] - self.train[_WARM_UP] > _SECONDS:
            trainer.should_stop = True  # then it validates

    def on_validation_batch_start(self, *_: Any) -> None:
        self.validation.append(time.process_time())

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.validation.append(time.process_time())

    def times(self, validation_steps: int) -> StepTimes:
        """Returns what a step costs, and a validation of this many steps."""
        warm = min(_WARM_UP, len(self.train) - 1)
        steps = max(1, len(self.train) - 1 - warm)
        step = (self.train[-1] - self.train[-1 - steps]) / steps if len(self.train) > 1 else 0.0
        seen = len(self.validation) - 1
        each = (self.validation[-1] - self.validation[0]) / seen
        # Before the first batch, the statistics of batch norms may be computed again.
        before = self.validation[0] - self.train[-1]
        return StepTimes(max(step, 1e-6), before + each * validation_steps)
