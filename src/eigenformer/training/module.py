"""A model with its loss, its metric and its optimiser: what Lightning trains."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import cast

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from eigenformer.config import TrainingConfig
from eigenformer.outputs import Outputs
from eigenformer.training.losses import loss_sums, mean_loss
from eigenformer.training.metrics import MeanLoss, Score
from eigenformer.training.modes import freeze_norms, recompute_statistics
from eigenformer.training.schedule import learning_rate_factor, warmup_steps
from eigenformer.training.seeding import derived_seed

PARTS = ("train", "val", "test")


class TrainingError(ValueError):
    """Training that cannot go on."""


class TrainingModule(pl.LightningModule):
    """A Lightning module: AdamW, linear warm-up and cosine decay per step, clipped gradients.

    Dropout and frequency draws are functions of (seed, epoch, step): any step can be repeated.
    Over several processes a step is the same as in one process with all graphs of the step:
    losses are divided by the labels of the whole batch, metrics taken over all processes.

    Logs ``train_loss``, ``val_loss`` and the metric with the same prefixes, every epoch.

    Args:
        model: An Eigenformer, or any other that takes a batch and gives as many numbers.
        outputs: What it predicts.
        training: How it is trained.
        seed: Of everything random in a step.
    """

    def __init__(
        self, model: nn.Module, outputs: Outputs, training: TrainingConfig, seed: int = 0
    ) -> None:
        super().__init__()
        self.model, self.outputs, self.training_config, self.seed = model, outputs, training, seed
        metrics = {"train": None, "val": None, "test": outputs.metrics}
        scores = {f"{part}_score": Score(outputs, metrics[part]) for part in PARTS}
        self.scores = nn.ModuleDict(scores)
        self.losses = nn.ModuleDict({f"{part}_loss": MeanLoss(outputs) for part in PARTS})
        self.report: dict[str, float] = {}

    @property
    def monitor(self) -> str:
        """The logged value that tells the best epoch."""
        return f"val_{self.outputs.metric}"

    def forward(self, batch: Batch) -> Tensor:
        """The model's predictions, standardised where the targets are."""
        return self.model(batch)

    @property
    def has_frozen_norms(self) -> bool:
        """Whether batch norms keep their statistics in this epoch."""
        return self.current_epoch >= self.training_config.epochs_before_freezing

    def on_train_epoch_start(self) -> None:
        if self.has_frozen_norms:
            freeze_norms(self.model)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        place = (self.current_epoch, batch_idx, self.global_rank)
        torch.manual_seed(derived_seed(self.seed, "step", *place))

    def training_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        sums, counts = self._step("train", batch)
        all_sums, all_counts = self._total(torch.stack([sums.detach().double(), counts.double()]))
        # The same number in all processes, which therefore stop together.
        whole = mean_loss(self.outputs, all_sums, all_counts)
        if not torch.isfinite(whole):
            raise TrainingError(
                f"the loss is {whole.item()} in epoch {self.current_epoch + 1}, step "
                f"{batch_idx + 1}: training stops; try a lower --lr, and look for extreme values "
                f"in the data"
            )
        # DDP takes the mean of the processes' gradients; this makes it the sum.
        loss = mean_loss(self.outputs, sums, all_counts) * self.trainer.world_size
        return {"loss": loss, "whole_loss": whole}

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        self._step("val", batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self._step("test", batch)

    def on_validation_start(self) -> None:
        count = self.training_config.recompute_statistics
        if count and self.trainer.state.fn == "fit" and not self.has_frozen_norms:
            # The first batches of this epoch, so that a resumed run takes the same ones.
            batches = islice(cast(Iterable[Batch], self.trainer.train_dataloader), count)
            with torch.autocast(self.device.type, enabled=False):
                recompute_statistics(self.model, map(self._to_device, batches))
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
            # One pass over the weights; Lightning clips no gradients with it in mixed precision.
            fused=not str(self.trainer.precision).endswith("mixed"),
        )
        total = max(1, int(self.trainer.estimated_stepping_batches))
        warm = warmup_steps(settings.warmup_epochs, total // settings.epochs)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_factor(step, warm, total)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _step(self, part: str, batch: Batch) -> tuple[Tensor, Tensor]:
        if part == "train":
            predictions = self.model(batch)
        else:  # in full precision, as the model is used later
            with torch.autocast(self.device.type, enabled=False):
                predictions = self.model(batch)
        targets = read_targets(self.outputs, batch)
        standardised = targets
        if self.outputs.kind == "regression":
            standardised = self.outputs.standardise(targets)
        sums, counts = loss_sums(self.outputs, predictions, standardised)
        self._loss(part).update(sums, counts)
        self._score(part).update(predictions, targets)
        return sums, counts

    def _finish(self, part: str) -> None:
        # With several processes all compute, also one that had no graph: computing is collective.
        loss, score = self._loss(part), self._score(part)
        values = {f"{part}_loss": float(loss.compute())}
        values |= {f"{part}_{name}": value for name, value in score.compute_all().items()}
        loss.reset()
        score.reset()
        self.report.update(values)
        self.log_dict(values)

    def _loss(self, part: str) -> MeanLoss:
        return cast(MeanLoss, self.losses[f"{part}_loss"])

    def _score(self, part: str) -> Score:
        return cast(Score, self.scores[f"{part}_score"])

    def _total(self, value: Tensor) -> Tensor:
        if self.trainer.world_size == 1:
            return value
        value = value.clone()
        dist.all_reduce(value)
        return value

    def _to_device(self, batch: Batch) -> Batch:
        return self.trainer.strategy.batch_to_device(batch)

    def _share_statistics(self) -> None:
        """Where each process has batch statistics of its own (CPU), takes their mean."""
        if self.trainer.world_size == 1:
            return
        for buffer in self.model.buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer /= self.trainer.world_size


def read_targets(outputs: Outputs, batch: Data) -> Tensor:
    """Classes ``[rows]``, or ``[rows, num_outputs]`` of floats with NaN for missing ones."""
    return shaped_targets(outputs, batch.y)


def shaped_targets(outputs: Outputs, targets: Tensor) -> Tensor:
    """Targets as stored, in the shape and type that losses and metrics take."""
    if outputs.kind == "multiclass":
        if targets.is_floating_point():
            targets = torch.where(targets.isnan(), -1, targets)
        return targets.long().view(-1)
    return targets.to(torch.get_default_dtype()).view(-1, outputs.num_outputs)
