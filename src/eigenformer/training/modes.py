"""What the parts of a model do in training and in evaluation: batch norms, dropout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch_geometric.data import Batch


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode, and every part of it back into the one it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def freeze_norms(model: nn.Module) -> None:
    """Makes batch norms use their stored statistics, and keep them, until the next ``train()``."""
    for norm in batch_norms(model):
        norm.eval()


@torch.no_grad()
def recompute_statistics(model: nn.Module, batches: Iterable[Batch]) -> None:
    """Replaces the statistics of batch norms by their means over ``batches``, without dropout.

    The running statistics of training lag behind the weights; where predictions are sums over
    nodes, that shifts them all. Statistics of the present weights do not.
    """
    norms = batch_norms(model)
    momenta = [norm.momentum for norm in norms]
    with evaluation_mode(model):
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # PyTorch's word for a plain mean over batches
                norm.train()
            for batch in batches:
                model(batch)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def batch_norms(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """All batch norms of a model."""
    kind = nn.modules.batchnorm._BatchNorm
    return [module for module in model.modules() if isinstance(module, kind)]
