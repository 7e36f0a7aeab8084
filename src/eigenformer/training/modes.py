"""Training and evaluation mode of a model's modules: batch norms, dropout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch_geometric.data import Batch


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode, and restores the mode of every module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def freeze_norms(model: nn.Module) -> None:
    """Makes batch norms use their stored statistics unchanged until the next ``train()``."""
    for norm in batch_norms(model):
        norm.eval()


@torch.no_grad()
def recompute_statistics(model: nn.Module, batches: Iterable[Batch]) -> None:
    """Replaces the statistics of batch norms by their means over ``batches``, without dropout.

    The running statistics of training lag behind the weights. If predictions are sums over nodes,
    the lag shifts all of them. Statistics computed with the current weights avoid this.
    """
    norms = batch_norms(model)
    momenta = [norm.momentum for norm in norms]
    with evaluation_mode(model):
        try:
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # in PyTorch, None means a plain mean over batches
                norm.train()
            for batch in batches:
                model(batch)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def batch_norms(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """Returns all batch norms of a model."""
    kind = nn.modules.batchnorm._BatchNorm
    return [module for module in model.modules() if isinstance(module, kind)]
