"""Batch norms with recomputed statistics."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eigenformer import Eigenformer
from eigenformer.training.modes import batch_norms, evaluation_mode, recompute_statistics
from tests.graphs import random_batch, small_config


@pytest.fixture
def model() -> Eigenformer:
    torch.manual_seed(0)
    return Eigenformer(small_config(dropout=0.3, attention_dropout=0.3)).double()


def test_statistics_are_the_means_over_the_batches(model):
    batches = [random_batch([4, 9], torch.float64) for _ in range(3)]
    inputs: list[torch.Tensor] = []
    hook = model.input_norm.register_forward_pre_hook(lambda m, given: inputs.append(given[0]))
    recompute_statistics(model, batches)
    hook.remove()
    means = torch.stack([x.mean(0) for x in inputs])
    variances = torch.stack([x.var(0) for x in inputs])
    torch.testing.assert_close(model.input_norm.running_mean, means.mean(0))
    torch.testing.assert_close(model.input_norm.running_var, variances.mean(0))


def test_one_batch_then_evaluates_as_it_trains_without_dropout(model):
    """With the statistics of one batch, evaluation of that batch is the training step's output."""
    batch = random_batch([4, 9, 6], torch.float64)
    recompute_statistics(model, [batch])
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for layer in model.layers:
        layer.attention.dropout = 0.0
    n = batch.num_nodes
    for norm in batch_norms(model):  # training divides by n, stored variances by n − 1
        norm.running_var.mul_((n - 1) / n)
    with evaluation_mode(model):
        found = model(batch)
    torch.testing.assert_close(found, model.train()(batch))


def test_nothing_else_is_changed(model):
    model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    before = {k: v.clone() for k, v in model.named_parameters()}
    recompute_statistics(model, [random_batch([5, 6], torch.float64)])
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[k], v) for k, v in model.named_parameters())
    assert all(norm.momentum == 0.1 for norm in batch_norms(model))
