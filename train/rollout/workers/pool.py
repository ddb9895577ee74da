"""Handing out work so that every unit is done exactly once, in order, whatever happens to workers.

A unit is a text (a task), its result too (a group). Whoever runs workers is an ``Executor``; this module never asks
how. Results are yielded in the order of the units. At most ``max_in_flight`` units are begun beyond the one that is waited for
(back-pressure: a slow unit or a slow reader stops the handing out, so memory stays bounded). A unit whose worker was
lost is handed out again; a result that comes a second time is dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from creditflow.envs.errors import ConfigError, CreditflowError

__all__ = ["MAX_ATTEMPTS", "Event", "Executor", "WorkerError", "run_in_order"]

MAX_ATTEMPTS = 3  # a unit that ends this many workers is itself the cause


class WorkerError(CreditflowError):
    """A worker met an error of its own, or one unit ended several workers."""


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a unit.

    Attributes:
        unit: its number.
        result: its result; None if its worker was lost.
        error: what the worker reports to have gone wrong while it played, if anything; repeating would not help.
        reason: why the worker was lost.
    """

    unit: int
    result: str | None = None
    error: str = ""
    reason: str = ""


class Executor(Protocol):
    """Runs units on workers, and replaces workers that it loses."""

    @property
    def size(self) -> int:
        """How many units can be under way at once, at present: 0 while no worker stands."""
        ...

    def submit(self, unit: int, text: str) -> None:
        """Begin a unit. Never called for more than ``size`` units without an event in between."""
        ...

    def wait(self) -> list[Event]:
        """Wait until a unit has ended or ``size`` has grown; each submitted unit gets one event."""
        ...

    def close(self) -> None:
        """Stop all workers at once; what they were at is dropped."""
        ...


def run_in_order(executor: Executor, units: Sequence[str], *, max_in_flight: int = 0) -> Generator[str, None, None]:
    """Results in the order of ``units``, each once. Closes the executor at the end, and when left early.

    Args:
        executor: runs them.
        units: what is to be done.
        max_in_flight: most units begun and not yet yielded; 0 for four per present worker.

    Raises:
        WorkerError: an error that a worker reports, or a unit that lost ``MAX_ATTEMPTS`` workers.
    """
    if max_in_flight < 0:
        raise ConfigError(f"max_in_flight must be at least 1, or 0 for four per worker, got {max_in_flight}")
    again: list[int] = []  # lost units, to be begun before new ones
    lost: dict[int, int] = {}
    in_flight: set[int] = set()
    ready: dict[int, str] = {}
    begun = given = 0
    try:
        while given < len(units):
            limit = max_in_flight or 4 * executor.size
            while len(in_flight) < executor.size:
                if again:
                    unit = again.pop(0)
                elif begun < min(len(units), given + limit):
                    unit, begun = begun, begun + 1
                else:
                    break
                in_flight.add(unit)
                executor.submit(unit, units[unit])
            while given not in ready:
                for event in executor.wait():
                    if event.unit not in in_flight:
                        continue  # its result is there already
                    in_flight.discard(event.unit)
                    if event.error:
                        raise WorkerError(f"a worker failed at unit {event.unit}: {event.error}")
                    if event.result is not None:
                        ready[event.unit] = event.result
                        continue
                    lost[event.unit] = lost.get(event.unit, 0) + 1
                    if lost[event.unit] >= MAX_ATTEMPTS:
                        raise WorkerError(
                            f"unit {event.unit} ended {MAX_ATTEMPTS} workers, the last with: {event.reason}; out of memory?"
                        )
                    again.append(event.unit)
                    print(f"a worker was lost ({event.reason}); its task is played again", file=sys.stderr, flush=True)
                if len(in_flight) < executor.size:
                    break  # somebody is idle: hand out before waiting on
            while given in ready:
                yield ready.pop(given)
                given += 1
    finally:
        executor.close()
