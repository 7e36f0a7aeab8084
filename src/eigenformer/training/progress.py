"""Shows the progress of training: a bar on a terminal, and a line per epoch everywhere."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from eigenformer.reporting import shown
from eigenformer.training.module import TrainingModule


class Progress(Callback):
    """Prints a line per epoch and, on a terminal, a bar.

    The bar shows the loss, the learning rate, graphs per second and the time left.

    Args:
        bar: Whether to show the bar; None to show it only on a terminal.
    """

    def __init__(self, bar: bool | None = None) -> None:
        self.bar = sys.stderr.isatty() if bar is None else bar
        self._bar: Any = None
        self._epoch_started = self._fit_started = 0.0
        self._graphs = self._done_at_start = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._fit_started = time.perf_counter()
        self._done_at_start = trainer.current_epoch

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._epoch_started, self._graphs = time.perf_counter(), 0
        if self.bar and trainer.is_global_zero:
            from tqdm import tqdm

            self._bar = tqdm(
                total=trainer.num_training_batches,
                desc=_title(trainer),
                bar_format="{desc} {percentage:3.0f}%|{bar}|",  # the bar fills the rest of the line
                leave=False,
                dynamic_ncols=True,
            )

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._graphs += batch.num_graphs * trainer.world_size
        if self._bar is not None:
            speed = self._graphs / (time.perf_counter() - self._epoch_started)
            loss, rate = float(outputs["whole_loss"]), _learning_rate(trainer)
            left = self._left(trainer, batch_idx + 1)
            text = f"loss {loss:.4f}, lr {rate:.2e}, {speed:.0f} graphs/s, {left} left"
            self._bar.set_description_str(f"{_title(trainer)}  {text}", refresh=False)
            self._bar.update()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._close()

    def print_line(self, trainer: pl.Trainer, module: TrainingModule) -> None:
        """Prints the line of an epoch after all its metrics are computed."""
        if trainer.is_global_zero:
            print(self.line(trainer, module), flush=True)

    def line(self, trainer: pl.Trainer, module: TrainingModule) -> str:
        """Returns one line that summarises the epoch."""
        logged, metric = module.logged, module.target.metric
        seconds = time.perf_counter() - self._epoch_started
        width = len(str(trainer.max_epochs))
        return (
            f"epoch {trainer.current_epoch + 1:>{width}}/{trainer.max_epochs}  "
            f"train loss {logged['train_loss']:.4f}  {metric} {shown(logged[f'train_{metric}'])}  "
            f"val loss {logged['val_loss']:.4f}  {metric} {shown(logged[f'val_{metric}'])}  "
            f"lr {_learning_rate(trainer):.2e}  {seconds:.1f} s  "
            f"{self._graphs / seconds:.0f} graphs/s  {self._left(trainer, None)} left"
        )

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _left(self, trainer: pl.Trainer, steps: int | None) -> str:
        part = 1.0 if steps is None else steps / max(1, int(trainer.num_training_batches))
        done = trainer.current_epoch - self._done_at_start + part
        left = (trainer.max_epochs or 0) - self._done_at_start - done
        seconds = (time.perf_counter() - self._fit_started) / max(done, 1e-9) * left
        hours, rest = divmod(int(seconds), 3600)
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"


def _title(trainer: pl.Trainer) -> str:
    return f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"


def _learning_rate(trainer: pl.Trainer) -> float:
    return float(trainer.optimizers[0].param_groups[0]["lr"])
