"""Dispatch work items to workers, exactly once each, with results in order, whatever fails.

A work item is a text (a task), and so is its result (a group). Results are yielded in the order of the items. At most
``max_in_flight`` items are started beyond those already yielded (back-pressure: a slow item or a slow reader stops the
dispatch, so memory stays bounded). An item whose worker was lost is dispatched again; a duplicate result is dropped.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from creditflow.envs.errors import ConfigError, CreditflowError
from creditflow.envs.plugins import loaded
from creditflow.train.progress import note

__all__ = ["MAX_ATTEMPTS", "Event", "Executor", "WorkerError", "run_in_order", "suspects"]

MAX_ATTEMPTS = 3  # an item that killed this many workers is taken to be the cause
ITEMS_PER_WORKER = 4  # default of ``max_in_flight``


class WorkerError(CreditflowError):
    """A worker reported an error, or one work item killed several workers."""


@dataclass(frozen=True, slots=True)
class Event:
    """The outcome of dispatching a work item.

    Attributes:
        item: index of the work item.
        result: its result; None if its worker was lost.
        error: error that the worker reported, if any; trying again would not help.
        reason: why the worker was lost.
    """

    item: int
    result: str | None = None
    error: str = ""
    reason: str = ""


class Executor(Protocol):
    """Runs work items on workers, and replaces lost workers."""

    @property
    def size(self) -> int:
        """Number of items that can run at once, at present: 0 while no worker is ready."""
        ...

    def submit(self, item: int, text: str) -> None:
        """Start a work item. At most ``size`` items are submitted without an event in between."""
        ...

    def wait(self) -> list[Event]:
        """Wait until an item has ended or ``size`` has grown; every submitted item gets one event."""
        ...

    def close(self) -> None:
        """Stop all workers at once; running items are dropped."""
        ...


def run_in_order(executor: Executor, items: Sequence[str], *, max_in_flight: int = 0) -> Generator[str, None, None]:
    """Yield the results in the order of ``items``, each once. Closes the executor at the end, and when left early.

    Args:
        executor: runs the items.
        items: the work items.
        max_in_flight: maximum number of items started and not yet yielded; 0 for four per ready worker.

    Raises:
        WorkerError: a worker reported an error, or an item killed ``MAX_ATTEMPTS`` workers.
    """
    if max_in_flight < 0:
        raise ConfigError(f"max_in_flight must be at least 1, or 0 for four per worker, got {max_in_flight}")
    dispatch = _Dispatch(executor, items)
    yielded = 0
    try:
        while yielded < len(items):
            dispatch.start_items(yielded + (max_in_flight or ITEMS_PER_WORKER * executor.size))
            while yielded not in dispatch.results and dispatch.wait():
                pass
            while yielded in dispatch.results:
                yield dispatch.results.pop(yielded)
                yielded += 1
    finally:
        executor.close()


def suspects() -> str:
    """What may have ended a process without an error."""
    plugins = ", ".join(f"{plugin.kind} {plugin.name!r} ({plugin.code.spec})" for plugin in loaded())
    ends = f"or your code ended the process: {plugins}" if plugins else "or compiled code crashed"
    return f"Memory ran out (use fewer workers), {ends}"


class _Dispatch:
    """Bookkeeping of one call.

    Attributes:
        results: results by item, until they are yielded.
    """

    def __init__(self, executor: Executor, items: Sequence[str]) -> None:
        self.results: dict[int, str] = {}
        self._executor, self._items = executor, items
        self._started = 0
        self._in_flight: set[int] = set()
        self._to_retry: list[int] = []  # started before new items
        self._failures: dict[int, int] = {}  # lost workers by item

    def start_items(self, limit: int) -> None:
        """Start items below ``limit`` while there are idle workers."""
        while len(self._in_flight) < self._executor.size:
            if self._to_retry:
                item = self._to_retry.pop(0)
            elif self._started < min(len(self._items), limit):
                item = self._started
                self._started += 1
            else:
                break
            self._in_flight.add(item)
            self._executor.submit(item, self._items[item])

    def wait(self) -> bool:
        """Wait for events and process them; returns whether all workers are busy (else items can be started)."""
        for event in self._executor.wait():
            if event.item in self._in_flight:  # otherwise a duplicate
                self._in_flight.discard(event.item)
                self._take(event)
        return len(self._in_flight) >= self._executor.size

    def _take(self, event: Event) -> None:
        if event.error:
            raise WorkerError(f"a worker failed at item {event.item}: {event.error}")
        if event.result is not None:
            self.results[event.item] = event.result
            return
        failures = self._failures[event.item] = self._failures.get(event.item, 0) + 1
        if failures >= MAX_ATTEMPTS:
            raise WorkerError(
                f"item {event.item} killed {MAX_ATTEMPTS} workers, the last with: {event.reason}. {suspects()}"
            )
        self._to_retry.append(event.item)
        note(f"a worker was lost ({event.reason}); its task is played again")
