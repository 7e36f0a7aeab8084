"""Batches are checked on the CPU and moved once, wherever a model gets them."""

from __future__ import annotations

import threading

import pytest
import torch

from eigenformer import Eigenformer
from eigenformer.analysis.diagnosis import diagnose
from eigenformer.data.batching import GraphDataset
from eigenformer.data.sbm import pattern
from eigenformer.data.spectra import memory_spectra
from eigenformer.targets import make_target
from eigenformer.training.predicting import evaluate
from eigenformer.training.receiving import in_time, received
from tests.graphs import random_batch, small_config


@pytest.mark.parametrize("use", [evaluate, diagnose])
def test_every_batch_was_checked_where_it_was_made(use):
    archive = pattern((6, 1, 1))
    dataset = GraphDataset(archive, memory_spectra(archive))
    model = Eigenformer.from_preset("pattern", layers=1, hidden_dim=8, heads=2, phi_width=2)
    seen = []
    model.register_forward_pre_hook(lambda _, given: seen.append("checked" in given[0]))
    use(model, dataset, make_target("binary", level="node"))
    assert seen
    assert all(seen)


def test_a_batch_is_moved_with_what_was_found():
    model, batch = Eigenformer(small_config()), random_batch([6, 7])
    moved = received(model, batch, torch.device("meta"))
    assert moved.eigenvectors.is_meta
    assert moved.checked.node_graph.is_meta
    assert moved.checked.sizes == (6, 7)


def test_a_network_that_checks_nothing_gets_its_batch():
    batch = random_batch([6, 7])
    assert received(torch.nn.Identity(), batch, torch.device("cpu")) is batch


def test_on_the_cpu_batches_are_made_when_they_are_asked_for():
    made = []
    coming = in_time((made.append(number) or number for number in (1, 2)), torch.device("cpu"))
    assert next(coming) == 1
    assert made == [1]


def test_the_next_batch_is_made_while_a_gpu_uses_one():
    made = [threading.Event() for _ in range(3)]

    def batches():
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in in_time(batches(), torch.device("cuda")):
        if number < 2:
            assert made[number + 1].wait(10)  # before it is asked for
    assert number == 2


def test_an_error_in_the_next_batch_is_raised_in_its_turn():
    coming = in_time(map(int, ["1", "2", "x"]), torch.device("cuda"))
    assert [next(coming), next(coming)] == [1, 2]
    with pytest.raises(ValueError, match="invalid literal"):
        next(coming)
