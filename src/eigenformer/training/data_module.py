"""Assigns graphs to the steps and processes of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import lightning.pytorch as pl
import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from eigenformer.data.batching import GraphDataset, keep_batch
from eigenformer.training.receiving import in_time, received
from eigenformer.training.seeding import derived_seed

if TYPE_CHECKING:
    from eigenformer.training.module import TrainingModule


class EpochBatches(Sampler[list[int]]):
    """Samples batches in an order that is a function of (seed, epoch), split over processes.

    Batches are cut from the order of all graphs, then each process takes its share of each batch.
    A step therefore has the same graphs for any number of processes. No graph is used twice in an
    epoch. If the last training batch is too small for batch norm, or has fewer graphs than there
    are processes, it is merged into the previous batch.

    Args:
        size: Number of graphs.
        batch_size: Graphs per step, over all processes.
        seed: The seed of the order; None for the original order.
        rank: The rank of this process.
        processes: The number of processes.
        steps: The largest number of batches per epoch; None for all graphs.
    """

    def __init__(
        self,
        size: int,
        batch_size: int,
        seed: int | None = None,
        rank: int = 0,
        processes: int = 1,
        steps: int | None = None,
    ) -> None:
        if seed is not None and size < processes:
            raise ValueError(f"{size} training graphs are too few for {processes} processes")
        self.size, self.batch_size, self.seed = size, batch_size, seed
        self.rank, self.processes, self.steps = rank, processes, steps
        self.epoch = 0

    @property
    def sampler(self) -> EpochBatches:
        """Itself: Lightning calls ``set_epoch`` on this attribute."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Selects the order of an epoch. Called by Lightning."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(self.size)
        if self.seed is not None:
            generator = torch.Generator().manual_seed(derived_seed(self.seed, "order", self.epoch))
            order = torch.randperm(self.size, generator=generator).numpy()
        for start, end in self._bounds():
            share = order[start:end][self.rank :: self.processes]
            if len(share):
                yield share.tolist()

    def __len__(self) -> int:
        return sum(end - start > self.rank for start, end in self._bounds())

    def _bounds(self) -> list[tuple[int, int]]:
        starts = list(range(0, self.size, self.batch_size))
        smallest = max(2, self.processes) if self.seed is not None else 1
        if len(starts) > 1 and self.size - starts[-1] < smallest:
            starts.pop()
        return list(zip(starts, [*starts[1:], self.size], strict=True))[: self.steps]


class GraphDataModule(pl.LightningDataModule):
    """The graphs to train, validate and test on.

    Args:
        train: The training set.
        val: The validation set, which selects the best epoch.
        test: The test set; None for no test.
        batch_size: Graphs per step, over all processes.
        seed: The seed of the training order.
        epoch_steps: The largest number of training steps per epoch; None for all graphs.
    """

    def __init__(
        self,
        train: GraphDataset,
        val: GraphDataset,
        test: GraphDataset | None = None,
        batch_size: int = 32,
        seed: int = 0,
        epoch_steps: int | None = None,
    ) -> None:
        super().__init__()
        self.train, self.val, self.test = train, val, test
        self.batch_size, self.seed, self.epoch_steps = batch_size, seed, epoch_steps

    def train_dataloader(self) -> DataLoader:
        return self._loader(self.train, self.seed)

    def val_dataloader(self) -> DataLoader:
        return self._loader(self.val, None)

    def test_dataloader(self) -> DataLoader | list[DataLoader]:
        return [] if self.test is None else self._loader(self.test, None)

    def _loader(self, dataset: GraphDataset, seed: int | None) -> DataLoader:
        trainer = self.trainer
        rank, processes = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        steps = None if seed is None else self.epoch_steps
        batches = EpochBatches(len(dataset), self.batch_size, seed, rank, processes, steps)
        module = None if trainer is None else trainer.lightning_module
        return GraphLoader(dataset, batches, cast("TrainingModule | None", module))


class GraphLoader(DataLoader):
    """Loads batches, each moved once to where it is used: for a GPU, while it uses the last one.

    Args:
        dataset: The graphs.
        batches: Their batches.
        receiver: The module that receives the batches; None to leave them on the CPU.
    """

    def __init__(
        self, dataset: GraphDataset, batches: EpochBatches, receiver: TrainingModule | None = None
    ) -> None:
        super().__init__(dataset, batch_sampler=batches, collate_fn=keep_batch)
        self.receiver = receiver

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        loaded = super().__iter__()
        if self.receiver is None:
            return loaded
        model, device = self.receiver.model, self.receiver.device
        return in_time((received(model, batch, device) for batch in loaded), device)
