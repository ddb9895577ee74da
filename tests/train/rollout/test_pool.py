"""Dispatch of work items: in order, each item once, whatever the executor loses, repeats or delays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.rollout.workers.pool import MAX_ATTEMPTS, Event, WorkerError, run_in_order


class Scripted:
    """Finishes items in an order chosen by the test, losing or repeating some; counts how many are started."""

    def __init__(self, size: int, choices: Iterator[int], *, most_losses: int = 0, repeat: bool = False) -> None:
        self.size, self._choices, self._losses, self._repeat = size, choices, most_losses, repeat
        self.open: list[tuple[int, str]] = []
        self.begun: list[int] = []
        self.lost: dict[int, int] = {}
        self.closed = 0

    def submit(self, item: int, text: str) -> None:
        assert len(self.open) < self.size
        self.begun.append(item)
        self.open.append((item, text))

    def wait(self) -> list[Event]:
        assert self.open, "no item is running, so this would wait for ever"
        number = next(self._choices)
        item, text = self.open.pop(number % len(self.open))
        if number % 3 == 0 and self.lost.get(item, 0) < self._losses:
            self.lost[item] = self.lost.get(item, 0) + 1
            return [Event(item, reason="lost by the test")]
        done = Event(item, result=text.upper())
        return [done, done] if self._repeat else [done]

    def close(self) -> None:
        self.closed += 1


def endless(numbers: list[int]) -> Iterator[int]:
    while True:
        yield from numbers


@given(
    st.integers(0, 20),
    st.integers(1, 5),
    st.lists(st.integers(0, 30), min_size=1),
    st.integers(0, MAX_ATTEMPTS - 1),
    st.booleans(),
)
def test_every_item_is_yielded_once_and_in_order(
    items: int, size: int, numbers: list[int], losses: int, repeat: bool
) -> None:
    executor = Scripted(size, endless(numbers), most_losses=losses, repeat=repeat)
    texts = [f"item {i}" for i in range(items)]
    assert list(run_in_order(executor, texts)) == [text.upper() for text in texts]
    assert executor.closed == 1


@given(st.integers(1, 4), st.integers(1, 6), st.lists(st.integers(0, 30), min_size=1))
def test_at_most_max_in_flight_items_are_started_and_not_yielded(
    size: int, max_in_flight: int, numbers: list[int]
) -> None:
    executor = Scripted(size, endless(numbers))
    for given_so_far, _ in enumerate(run_in_order(executor, [str(i) for i in range(20)], max_in_flight=max_in_flight)):
        assert max(executor.begun) < given_so_far + max_in_flight


class ComingAndGoing(Scripted):
    """Begins without a worker; each becomes ready at some time, and a lost one is replaced later or never."""

    def __init__(self, most: int, choices: Iterator[int], *, most_losses: int = 0) -> None:
        super().__init__(0, choices, most_losses=most_losses)
        self._starting = most

    def wait(self) -> list[Event]:
        number = next(self._choices)
        if self._starting and (not self.open or number % 2):
            self._starting, self.size = self._starting - 1, self.size + 1
            return []
        events = super().wait()
        if events[0].result is None:
            self.size -= 1
            self._starting += number % 2 or not self.size
        return events


@given(
    st.integers(0, 20), st.integers(1, 5), st.lists(st.integers(0, 30), min_size=1), st.integers(0, MAX_ATTEMPTS - 1)
)
def test_workers_that_start_late_or_are_never_replaced_block_nothing(
    items: int, most: int, numbers: list[int], losses: int
) -> None:
    executor = ComingAndGoing(most, endless(numbers), most_losses=losses)
    texts = [f"item {i}" for i in range(items)]
    assert list(run_in_order(executor, texts)) == [text.upper() for text in texts]


def test_an_item_that_kills_every_worker_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    executor = Scripted(2, endless([0]), most_losses=99)
    with pytest.raises(WorkerError, match=f"item 0 killed {MAX_ATTEMPTS} workers, the last with: lost by the test"):
        list(run_in_order(executor, ["a", "b"]))
    assert executor.closed == 1
    assert "played again" in capsys.readouterr().err


def test_leaving_early_closes_the_executor() -> None:
    executor = Scripted(2, endless([0]))
    results = run_in_order(executor, ["a", "b", "c"])
    assert next(results) == "A"
    results.close()
    assert executor.closed == 1


def test_an_error_that_a_worker_reports_ends_the_run() -> None:
    class Failing(Scripted):
        def wait(self) -> list[Event]:
            return [Event(self.open.pop()[0], error="DataError: no such file")]

    with pytest.raises(WorkerError, match=r"item 1: DataError: no such file"):
        list(run_in_order(Failing(2, endless([0])), ["a", "b"]))
