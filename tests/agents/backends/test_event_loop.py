"""The event loop of an engine ends with its tasks: none is destroyed while it is pending."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Iterator

import pytest

from creditflow.agents.backends.vllm.async_engine import stop_loop

Running = tuple[asyncio.AbstractEventLoop, threading.Thread]


@pytest.fixture
def running() -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop, thread
    stop_loop(loop, thread)


def test_waiting_tasks_are_cancelled_and_may_clean_up(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    ended: list[int] = []

    async def waits(number: int) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)  # what a task still has to send
            ended.append(number)

    async def starts() -> None:
        for number in range(3):
            tasks.add(asyncio.create_task(waits(number)))
        await asyncio.sleep(0)

    tasks: set[asyncio.Task[None]] = set()
    loop, thread = running
    asyncio.run_coroutine_threadsafe(starts(), loop).result(10)
    with caplog.at_level(logging.ERROR):
        stop_loop(loop, thread)
        stop_loop(loop, thread)
        tasks.clear()
        gc.collect()
    assert sorted(ended) == [0, 1, 2]
    assert loop.is_closed() and not thread.is_alive()
    assert not caplog.records


def test_a_loop_that_has_stopped_by_itself_is_closed(running: Running) -> None:
    loop, thread = running
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    stop_loop(loop, thread)
    assert loop.is_closed()


def test_a_task_that_ignores_its_cancellation_does_not_hold_the_loop(running: Running) -> None:
    async def ignores() -> None:
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                continue

    loop, thread = running
    future = asyncio.run_coroutine_threadsafe(ignores(), loop)
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
    loop.set_exception_handler(
        lambda *_: None
    )  # which otherwise logs that a pending task was destroyed, as it is on purpose
    stop_loop(loop, thread, seconds=0.05)
    assert loop.is_closed() and not thread.is_alive() and not future.done()
