"""How training ends before its last epoch: by a signal, or early for lack of improvement."""

from __future__ import annotations

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, EarlyStopping

from eigenformer.stopping import StopSignals


class ListenToSignals(Callback):
    """Makes SIGTERM end training in the same way as Ctrl-C.

    Lightning's own handler broadcasts from inside the signal handler, between other messages, and
    hangs forever with several processes. Lightning restores the earlier handlers when it is done.

    Args:
        stop: Handles the signals.
    """

    def __init__(self, stop: StopSignals) -> None:
        self.stop = stop

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()


class StopEarly(EarlyStopping):
    """Stops after a number of epochs without improvement, also if the run was killed then.

    Args:
        metric: The name of the logged metric.
        patience: The number of epochs.
        higher_is_better: Whether a higher value is an improvement.
    """

    def __init__(self, metric: str, patience: int, higher_is_better: bool) -> None:
        mode = "max" if higher_is_better else "min"
        super().__init__(metric, patience=patience, mode=mode, check_finite=False)

    @property
    def state_key(self) -> str:
        """The name of its state in checkpoints, which is that of Lightning's class."""
        return super().state_key.replace(type(self).__qualname__, EarlyStopping.__qualname__, 1)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.wait_count >= self.patience:  # as the checkpoint has it
            trainer.should_stop = True
