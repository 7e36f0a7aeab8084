"""The Lightning module: a model with its loss, metrics and optimiser."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import cast

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.utilities.types import STEP_OUTPUT, OptimizerLRScheduler
from torch import Tensor, nn
from torch_geometric.data import Batch

from eigenformer.config import TrainingConfig
from eigenformer.data.fields import SPLITS
from eigenformer.frequencies import sample_for
from eigenformer.targets import Target
from eigenformer.training.averaging import moving_average
from eigenformer.training.modes import freeze_norms, recompute_statistics
from eigenformer.training.schedule import learning_rate_factor, warmup_steps
from eigenformer.training.scores import MeanLoss, Score, full_precision
from eigenformer.training.seeding import derived_seed
from eigenformer.transfer import widened


class TrainingError(ValueError):
    """Training cannot continue."""


class TrainingModule(pl.LightningModule):
    """A Lightning module: AdamW, linear warm-up and cosine decay per step, clipped gradients.

    Dropout and frequency samples are functions of (seed, epoch, step), so any step can be repeated.
    A step over several processes equals a step of one process with the same graphs: losses are
    divided by the number of labels in the whole batch, and metrics are computed over all processes.

    With ``training.average_weights``, the module also holds an average of the weights, which is
    part of its checkpoints. Training steps never use the average; everything else does.

    Logs ``train_loss``, ``val_loss`` and the metric with the same prefixes after every epoch.

    Args:
        model: Any network that takes a batch and returns ``target.width`` numbers per row.
        target: What the model predicts.
        training: The training settings.
        seed: The seed of all random numbers in a step.
    """

    def __init__(
        self, model: nn.Module, target: Target, training: TrainingConfig, seed: int = 0
    ) -> None:
        super().__init__()
        self.model, self.target, self.training_config, self.seed = model, target, training, seed
        decay = training.average_weights
        self.average = moving_average(model, decay) if decay else None
        metrics = {"train": None, "val": None, "test": target.metrics}
        scores = {f"{split}_score": Score(target, metrics[split]) for split in SPLITS}
        self.scores = nn.ModuleDict(scores)
        self.losses = nn.ModuleDict({f"{split}_loss": MeanLoss(target) for split in SPLITS})
        self.logged: dict[str, float] = {}

    @property
    def monitor(self) -> str:
        """The name of the logged value that selects the best epoch."""
        return f"val_{self.target.metric}"

    @property
    def validated(self) -> nn.Module:
        """The model that is validated, saved and tested: the average of the weights, if any."""
        return self.model if self.average is None else self.average.module

    def forward(self, batch: Batch) -> Tensor:
        """Returns the predictions of the validated model, standardised if the targets are."""
        return self.validated(batch)

    @property
    def has_frozen_norms(self) -> bool:
        """Whether the statistics of batch norms are frozen in this epoch."""
        return self.current_epoch >= self.training_config.epochs_before_freezing

    def on_train_epoch_start(self) -> None:
        if self.has_frozen_norms:
            freeze_norms(self.model)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        place = (self.current_epoch, batch_idx, self.global_rank)
        torch.manual_seed(derived_seed(self.seed, "step", *place))

    def training_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        sums, counts = self._step("train", batch)
        all_sums, all_counts = self._total(torch.stack([widened(sums.detach()), widened(counts)]))
        # All processes compute the same number, so they stop together.
        whole = self.target.mean_loss(all_sums, all_counts)
        if not torch.isfinite(whole):
            raise TrainingError(
                f"the loss is {whole.item()} in epoch {self.current_epoch + 1}, step "
                f"{batch_idx + 1}: training stopped; try a lower --lr, and check the data for "
                f"extreme values"
            )
        # DDP averages the gradients of the processes; this factor turns the mean into the sum.
        loss = self.target.mean_loss(sums, all_counts) * self.trainer.world_size
        return {"loss": loss, "whole_loss": whole}

    def on_train_batch_end(self, outputs: STEP_OUTPUT, batch: Batch, batch_idx: int) -> None:
        if self.average is not None:
            self.average.update_parameters(self.model)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._step("val", batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self._step("test", batch)

    def on_validation_start(self) -> None:
        count = self.training_config.recompute_statistics
        if count and self.trainer.state.fn == "fit" and not self.has_frozen_norms:
            # The first batches of this epoch, so that a resumed run uses the same ones.
            batches = islice(cast(Iterable[Batch], self.trainer.train_dataloader), count)
            with torch.autocast(self.device.type, enabled=False):
                recompute_statistics(self.validated, map(self._to_device, batches))
        self._share_statistics()

    def on_validation_epoch_end(self) -> None:
        self._finish("val")

    def on_test_epoch_end(self) -> None:
        self._finish("test")

    def on_train_epoch_end(self) -> None:
        self._finish("train")

    def configure_optimizers(self) -> OptimizerLRScheduler:
        settings = self.training_config
        optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=settings.learning_rate,
            betas=(settings.betas[0], settings.betas[1]),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            # Updates all weights in one pass. Lightning cannot clip gradients with a fused
            # optimiser in mixed precision.
            fused=not str(self.trainer.precision).endswith("mixed"),
        )
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warm = warmup_steps(settings.warmup_epochs, total // settings.epochs)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_factor(step, warm, total)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _step(self, split: str, batch: Batch) -> tuple[Tensor, Tensor]:
        if split == "train":
            predictions = self.model(sample_for(getattr(self.model, "config", None), batch))
        else:  # full precision, as in later use of the model
            with torch.autocast(self.device.type, enabled=False):
                predictions = self.validated(batch)
        predictions, targets = full_precision(predictions), self.target.read(batch)
        weights = self.target.row_weights(batch) if split == "train" else None
        sums, counts = self.target.loss_sums(predictions, targets, weights)
        self._loss(split).update(sums, counts)
        self._score(split).update(predictions, targets)
        return sums, counts

    def _finish(self, split: str) -> None:
        # Computing is collective: every process takes part, even one without graphs.
        loss, score = self._loss(split), self._score(split)
        values = {f"{split}_loss": float(loss.compute())}
        values |= {f"{split}_{name}": value for name, value in score.compute_all().items()}
        loss.reset()
        score.reset()
        self.logged.update(values)
        self.log_dict(values)

    def _loss(self, split: str) -> MeanLoss:
        return cast(MeanLoss, self.losses[f"{split}_loss"])

    def _score(self, split: str) -> Score:
        return cast(Score, self.scores[f"{split}_score"])

    def _total(self, value: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value

    def _to_device(self, batch: Batch) -> Batch:
        return self.trainer.strategy.batch_to_device(batch)

    def _share_statistics(self) -> None:
        """Averages the batch statistics over processes if each has its own (CPU)."""
        if self.trainer.world_size == 1:
            return
        average = () if self.average is None else self.average.buffers()
        for buffer in (*self.model.buffers(), *average):
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= self.trainer.world_size
