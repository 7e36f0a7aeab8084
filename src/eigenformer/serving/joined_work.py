"""One thread that does the work of many requests, several of them in one pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")

_STOPPING = "the server is stopping"


class BusyError(RuntimeError):
    """Raised if too many requests wait already, or if the work has ended."""


@dataclass(eq=False)
class _Request(Generic[Item, Result]):
    items: Sequence[Item]
    future: Future[list[Result]]
    results: list[Result] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Call:
    function: Callable[[], Any]
    future: Future[Any]


class JoinedWork(Generic[Item, Result]):
    """Works on the items of several requests together, in a thread of its own.

    A pass takes an equal share of every request that waits, so that a short request does not wait
    until a long one is complete.

    Args:
        work: Returns the result of each item of a pass.
        most_items: Items in a pass.
        most_requests: Requests that may wait or be under way. A further one is an error.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], list[Result]],
        most_items: int = 64,
        most_requests: int = 64,
    ) -> None:
        self._work, self._most_items, self._most_requests = work, most_items, most_requests
        self._requests: list[_Request[Item, Result]] = []
        self._calls: list[_Call] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="joined work", daemon=True)
        self._thread.start()

    def submit(self, items: Sequence[Item]) -> Future[list[Result]]:
        """Returns the results of these items, in their order, when all are there."""
        request: _Request[Item, Result] = _Request(items, _started())
        if not items:
            request.future.set_result([])
        else:
            self._enter(self._requests, request)
        return request.future

    def call(self, function: Callable[[], Value]) -> Future[Value]:
        """Runs a function in the thread, between two passes, and returns its result."""
        call = _Call(function, _started())
        self._enter(self._calls, call)
        return call.future

    def close(self, wait: bool = True) -> None:
        """Ends the work. Requests that wait or are under way fail at once.

        Args:
            wait: Whether to wait for the end of the present pass.
        """
        with self._changed:
            self._closed = True
            futures = [*(call.future for call in self._calls), *(r.future for r in self._requests)]
            for future in futures:
                self._end(future, error=BusyError(_STOPPING))
            self._changed.notify()
        if wait:
            self._thread.join()

    def _enter(self, queue: list[Any], entry: Any) -> None:
        with self._changed:
            if self._closed:
                raise BusyError(_STOPPING)
            if len(self._requests) + len(self._calls) >= self._most_requests:
                raise BusyError(f"{self._most_requests} requests are waiting; try again later")
            queue.append(entry)
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._requests or self._calls)
                if self._closed:
                    return
                calls, requests = list(self._calls), list(self._requests)
            for call in calls:
                try:
                    self._end(call.future, call.function())
                except Exception as error:
                    self._end(call.future, error=error)
            self._pass(requests[: self._most_items])
            with self._changed:
                self._calls[:] = [call for call in self._calls if not call.future.done()]
                self._requests[:] = [part for part in self._requests if not part.future.done()]

    def _pass(self, requests: list[_Request[Item, Result]]) -> None:
        """Works on the next items of each request. Those that are complete get their results.

        If that fails, each request is tried alone, so that it cannot spoil others.
        """
        if not requests:
            return
        share = self._most_items // len(requests)
        parts = [
            request.items[len(request.results) : len(request.results) + share]
            for request in requests
        ]
        try:
            results = iter(self._work([item for part in parts for item in part]))
        except Exception as error:
            if len(requests) == 1:
                self._end(requests[0].future, error=error)
            else:
                for request in requests:
                    self._pass([request])
            return
        for request, part in zip(requests, parts, strict=True):
            request.results += [next(results) for _ in part]
            if len(request.results) == len(request.items):
                self._end(request.future, request.results)

    def _end(self, future: Future[Any], result: Any = None, error: Exception | None = None) -> None:
        """Settles a future, unless it was already told that the work ends."""
        with self._changed:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


def _started() -> Future[Any]:
    """Returns a future that cannot be cancelled: the thread alone says how it ends."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future
