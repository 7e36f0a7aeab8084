"""Records a run: the folder is complete and consistent after every epoch."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint

from eigenformer.model_folder import WEIGHTS, not_finite, read_card, read_weights, weights_digest
from eigenformer.training.environment import peak_memory_mb
from eigenformer.training.module import TrainingError, TrainingModule
from eigenformer.training.run_folder import CHECKPOINT, RunError
from eigenformer.training.run_writer import RunWriter


class EpochLog(Checkpoint):
    """Records the metrics of every epoch and the best weights, and writes them if it has a writer.

    Lightning calls it after all other callbacks, so that the checkpoint includes their state.

    Args:
        writer: Writes to the run folder; None to keep the best weights in memory only.
        then: Called after everything is written.
    """

    def __init__(
        self,
        writer: RunWriter | None = None,
        then: Callable[[pl.Trainer, TrainingModule], None] | None = None,
    ) -> None:
        self.writer, self.then = writer, then
        self.rows: list[dict[str, float]] = []
        self.best_epoch = 0
        self.best: float = math.nan
        self.best_state: dict[str, torch.Tensor] = {}
        self.best_weights: str | None = None
        self.seconds: list[float] = []
        self.processor_seconds: list[float] = []
        self._started = 0.0, 0.0

    @property
    def state_key(self) -> str:
        """The name of its state in checkpoints, which is older than the name of the class."""
        return "Recorder"

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Completes the folder from the checkpoint: a run may be killed between two files."""
        if self.writer is None or not trainer.is_global_zero:
            return
        assert isinstance(pl_module, TrainingModule)
        if self.best_epoch == len(self.rows):  # also before the first epoch: a folder has a model
            self.writer.save_best(pl_module.validated, self.best_epoch, self.best)
        else:
            self.check_best()
        if self.rows:
            self.writer.folder.write_metrics(self.rows)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._started = time.perf_counter(), time.process_time()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        module = pl_module
        assert isinstance(module, TrainingModule)
        epoch = trainer.current_epoch + 1
        self.seconds.append(time.perf_counter() - self._started[0])
        self.processor_seconds.append(round(time.process_time() - self._started[1], 3))
        row = {"epoch": epoch, "learning_rate": trainer.optimizers[0].param_groups[0]["lr"]}
        names = (
            f"{split}_{name}"
            for name in ("loss", module.target.metric)
            for split in ("train", "val")
        )
        row |= {name: module.logged[name] for name in names}
        weights = module.validated.state_dict()
        _check_finite(weights, epoch)
        self.rows.append(row)
        if self._is_better(row, module.monitor, module.target.higher_is_better):
            self.best_epoch, self.best = epoch, row[module.monitor]
            if self.writer is None:
                self.best_state = {k: v.detach().cpu().clone() for k, v in weights.items()}
            else:
                self.best_weights = weights_digest(weights)
        if self.writer is not None:
            # The checkpoint comes first: the other files can be completed from it.
            trainer.save_checkpoint(self.writer.folder.checkpoint)
            if trainer.is_global_zero:
                if self.best_epoch == epoch:
                    self.writer.save_best(module.validated, epoch, self.best)
                self.writer.folder.write_metrics(self.rows)
                self.write_summary("running")
        if self.then is not None:
            self.then(trainer, module)

    def check_best(self) -> None:
        """Raises an error if the weights in the folder are not those of the best epoch."""
        assert self.writer is not None
        path, limits = self.writer.folder.path, self.writer.data.limits
        found, epoch = weights_digest(read_weights(path)), read_card(path, limits).epoch
        if epoch != self.best_epoch or found != (self.best_weights or found):
            raise RunError(
                f"{path}: {WEIGHTS} is not from epoch {self.best_epoch}, the best one: it was "
                f"replaced from outside; remove {CHECKPOINT} to start again from the first epoch"
            )

    def write_summary(self, state: str, **more: Any) -> None:
        """Writes the summary of the run so far."""
        if self.writer is not None:
            summary = self.writer.summary({**self.known(), "state": state, **more})
            self.writer.folder.write_summary(summary)

    def known(self) -> dict[str, Any]:
        """Returns the results of the run so far."""
        # The median is robust if the machine was busy or asleep for a while.
        seconds = statistics.median(self.seconds) if self.seconds else None
        return {
            "epochs": len(self.rows),
            "best_epoch": self.best_epoch or None,
            "best_validation": self.best if self.best_epoch else None,
            "train": {k: v for k, v in self.rows[-1].items() if k != "epoch"} if self.rows else {},
            "seconds_per_epoch": seconds,
            "processor_seconds": self.processor_seconds,
            "peak_memory_mb": round(peak_memory_mb(), 1),
        }

    def state_dict(self) -> dict[str, Any]:
        state = {"rows": self.rows, "best_epoch": self.best_epoch, "best": self.best}
        times = {"seconds": self.seconds, "processor_seconds": self.processor_seconds}
        return {**state, "best_weights": self.best_weights, **times}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows, self.seconds = list(state_dict["rows"]), list(state_dict["seconds"])
        # Checkpoints of older versions do not have it.
        self.processor_seconds = list(state_dict.get("processor_seconds", ()))
        self.best_epoch, self.best = state_dict["best_epoch"], state_dict["best"]
        self.best_weights = state_dict.get("best_weights")  # missing in earlier versions

    def _is_better(self, row: dict[str, float], metric: str, higher: bool) -> bool:
        """Whether an epoch is the best so far.

        For equal metrics, the lower loss is better. Any number is better than NaN.
        """
        if not self.best_epoch:
            return True

        def rank(row: dict[str, float]) -> tuple[bool, float, bool, float]:
            value, loss = row[metric] if higher else -row[metric], -row["val_loss"]
            known = [number == number for number in (value, loss)]
            return known[0], value if known[0] else 0.0, known[1], loss if known[1] else 0.0

        return rank(row) > rank(self.rows[self.best_epoch - 1])


def _check_finite(weights: Mapping[str, torch.Tensor], epoch: int) -> None:
    """Raises an error if a weight is NaN or infinite: no such model is ever written."""
    name = not_finite(weights)
    if name is not None:
        raise TrainingError(
            f"'{name}' is not a finite number after epoch {epoch}: training stopped; try a lower "
            f"--lr, and check the data for extreme values"
        )
