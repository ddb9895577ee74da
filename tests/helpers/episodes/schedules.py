"""Every interleaving of steps and answers, without a clock: threads and queue of the asynchronous engine, simulated."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty
from typing import Any

import numpy as np
import pytest

from creditflow.train.rollout import asynchronous

__all__ = ["Schedule"]


class Schedule:
    """What could end next, in an order that a seed decides.

    Args:
        seed: decides which of the pending operations ends first, and whether a batch waits for one more.
    """

    def __init__(self, seed: int) -> None:
        self._choice = np.random.default_rng(seed)
        self._pending: list[Callable[[], None]] = []
        self._events: list[Any] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the engine's threads and queue."""
        monkeypatch.setattr(asynchronous, "ThreadPoolExecutor", lambda *_args, **_options: self)
        monkeypatch.setattr(asynchronous, "SimpleQueue", lambda: self)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """An operation that ends at some later moment."""
        future: Future[Any] = Future()

        def end() -> None:
            try:
                future.set_result(function(*arguments))
            except Exception as error:  # noqa: BLE001 - as a thread pool does
                future.set_exception(error)

        self._pending.append(end)
        return future

    def shutdown(self, **_options: Any) -> None:
        """Drop what is pending."""
        self._pending.clear()

    def put(self, event: Any) -> None:
        """Part of the queue."""
        self._events.append(event)

    def get_nowait(self) -> Any:
        """Part of the queue."""
        if not self._events:
            raise Empty
        return self._events.pop(0)

    def get(self, timeout: float | None = None) -> Any:
        """Part of the queue: some pending operations end, until there is an event."""
        while not self._events:
            if timeout is not None and (not self._pending or self._choice.random() < 0.5):
                raise Empty
            assert self._pending, "the engine waits for nothing: it would hang"
            self._pending.pop(int(self._choice.integers(len(self._pending))))()
        return self._events.pop(0)
