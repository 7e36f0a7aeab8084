"""Requests are joined, in turns, and none of them can spoil another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from eigenformer.serving.joined_work import BusyError, JoinedWork


class Held:
    """Work that waits until it is let go, and remembers its passes."""

    def __init__(self, **sizes: int) -> None:
        self.passes: list[list[int]] = []
        self.begun, self.free = threading.Event(), threading.Event()
        self.work: JoinedWork[int, int] = JoinedWork(self, **sizes)

    def __call__(self, items: list[int]) -> list[int]:
        self.passes.append(items)
        self.begun.set()
        assert self.free.wait(10)
        if 13 in items:
            raise ArithmeticError("thirteen")
        return [10 * item for item in items]

    def hold(self) -> None:
        """Begins a pass that lasts until the work is free."""
        self.first = self.work.submit([0])
        assert self.begun.wait(10)


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held(most_items=4, most_requests=5)
    yield held
    held.free.set()
    held.work.close()


def test_requests_that_wait_are_one_pass(held: Held) -> None:
    held.hold()
    waiting = [held.work.submit(items) for items in ([1, 2], [3], [4])]
    held.free.set()
    assert [future.result(10) for future in (held.first, *waiting)] == [[0], [10, 20], [30], [40]]
    # An equal share of four items for each of three, until they are complete.
    assert held.passes == [[0], [1, 3, 4], [2]]


def test_a_short_request_does_not_wait_for_a_long_one(held: Held) -> None:
    held.hold()
    long = held.work.submit(range(20, 40))
    short = held.work.submit([1])
    long.add_done_callback(lambda _: short.result(0))  # raises an error if it is not there yet
    held.free.set()
    assert short.result(10) == [10]
    assert long.result(10) == list(range(200, 400, 10))
    assert held.passes[1] == [20, 21, 1]
    assert max(map(len, held.passes)) == 4


def test_a_request_that_fails_fails_alone(held: Held) -> None:
    held.hold()
    bad, good = held.work.submit([13]), held.work.submit([1, 2])
    held.free.set()
    with pytest.raises(ArithmeticError, match="thirteen"):
        bad.result(10)
    assert good.result(10) == [10, 20]
    assert held.work.submit([3]).result(10) == [30]  # the thread lives


def test_calls_take_their_turn_in_the_same_thread(held: Held) -> None:
    held.hold()
    name = held.work.call(lambda: threading.current_thread().name)
    failed = held.work.call(lambda: 1 // 0)
    held.free.set()
    assert name.result(10) == "joined work"
    with pytest.raises(ZeroDivisionError):
        failed.result(10)


def test_the_queue_is_bounded(held: Held) -> None:
    held.hold()
    waiting = [held.work.submit([1]), held.work.call(lambda: 2)]
    waiting += [held.work.submit([3]) for _ in range(2)]
    for enter in (lambda: held.work.submit([4]), lambda: held.work.call(lambda: 4)):
        with pytest.raises(BusyError, match="5 requests are waiting; try again later"):
            enter()
    held.free.set()
    assert [future.result(10) for future in waiting] == [[10], 2, [30], [30]]
    assert held.work.submit([5]).result(10) == [50]


def test_nothing_is_work_for_nobody(held: Held) -> None:
    held.hold()
    assert held.work.submit([]).result(0) == []


def test_what_waits_when_the_work_ends_is_told_at_once(held: Held) -> None:
    held.hold()
    waiting = [held.first, held.work.submit([1]), held.work.call(lambda: 2)]
    held.work.close(wait=False)
    for future in waiting:
        with pytest.raises(BusyError, match="the server is stopping"):
            future.result(0)
    with pytest.raises(BusyError, match="the server is stopping"):
        held.work.submit([1])
    held.free.set()
    held.work.close()
    assert held.passes == [[0]]
