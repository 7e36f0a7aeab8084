from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenformer.training.data_module import EpochBatches


@given(st.integers(4, 60), st.integers(1, 20), st.integers(1, 4), st.booleans())
def test_every_graph_is_taken_once_by_one_process(size, batch_size, processes, shuffle):
    seed = 3 if shuffle else None
    if seed is None and batch_size < processes:
        batch_size = processes
    shares = [EpochBatches(size, batch_size, seed, rank, processes) for rank in range(processes)]
    lists = [list(share) for share in shares]
    taken = list(itertools.chain.from_iterable(itertools.chain.from_iterable(lists)))
    assert sorted(taken) == list(range(size))
    for share, batches in zip(shares, lists, strict=True):
        assert len(share) == len(batches)


def test_a_step_has_the_same_graphs_whatever_the_number_of_processes():
    alone = list(EpochBatches(40, 8, seed=1))
    shares = [list(EpochBatches(40, 8, 1, rank, 2)) for rank in (0, 1)]
    assert [sorted(a + b) for a, b in zip(*shares, strict=True)] == list(map(sorted, alone))


def test_the_order_is_a_function_of_seed_and_epoch():
    def order(seed, epoch):
        batches = EpochBatches(50, 7, seed)
        batches.set_epoch(epoch)
        return list(batches)

    assert order(0, 3) == order(0, 3)
    assert order(0, 3) != order(0, 4)
    assert order(0, 3) != order(1, 3)


def test_a_last_batch_of_one_joins_the_one_before():
    assert list(map(len, EpochBatches(9, 4, seed=0))) == [4, 5]
    assert list(map(len, EpochBatches(9, 4))) == [4, 4, 1]


def test_too_few_graphs_for_the_processes():
    with pytest.raises(ValueError, match="too few for 4 processes"):
        EpochBatches(3, 8, 0, 0, 4)


def test_a_short_epoch_is_the_start_of_a_whole_one():
    whole, short = EpochBatches(10, 3, seed=0), EpochBatches(10, 3, seed=0, steps=2)
    for epoch in range(2):
        whole.set_epoch(epoch)
        short.set_epoch(epoch)
        assert list(short) == list(whole)[:2]
    assert len(short) == 2
