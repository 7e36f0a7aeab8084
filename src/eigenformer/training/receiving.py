"""Batches on their way from the CPU to a model: the only place that moves them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import nn
from torch_geometric.data import Batch

from eigenformer.models import Model

T = TypeVar("T")


def received(model: nn.Module, batch: Batch, device: torch.device) -> Batch:
    """Returns a batch of the CPU, checked there and moved to a device. PyG moves it in place."""
    # Checked here, because a step on a GPU reads nothing back.
    batch = model.check(batch) if isinstance(model, Model) else batch
    if device.type != "cuda":
        return batch.to(device)
    with torch.cuda.device(device):  # from pinned memory, nobody waits for the copy
        return batch.pin_memory().to(device, non_blocking=True)


def in_time(items: Iterator[T], device: torch.device) -> Iterator[T]:
    """Returns the items; for a GPU, each is computed while the GPU uses the one before."""
    return ahead(items) if device.type == "cuda" else items


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Computes each item in a thread while the one before is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item
