"""Ctrl-C while vLLM's asynchronous engine works: the work ends too. No vLLM: its engine is a stand-in."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from creditflow.agents.backends.vllm.async_engine import VllmAsyncEngine, result_of, stop_loop


def test_work_that_nobody_waits_for_any_more_is_cancelled() -> None:
    loop, cancelled = asyncio.new_event_loop(), threading.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def endless() -> None:
        try:
            while True:  # a signal that comes just before the main thread begins to wait is seen at the next one
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                await asyncio.sleep(2)
        finally:
            cancelled.set()

    async def at_once() -> bool:
        return True

    engine: Any = object.__new__(VllmAsyncEngine)
    engine._loop, engine._broken, engine._picture = loop, None, None
    engine._llm = SimpleNamespace(reset_prefix_cache=endless)
    # a shell starts jobs in the background with the signal ignored
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.reset_prefix_cache()
        assert cancelled.wait(60)
        engine._llm = SimpleNamespace(reset_prefix_cache=at_once)
        assert engine.reset_prefix_cache()  # and the engine does not count as dead
    finally:
        signal.signal(signal.SIGINT, handler)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.mark.parametrize("begun", [True, False])
def test_an_interrupt_before_there_is_a_future_cancels_the_work_too(
    begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come while ``run_coroutine_threadsafe`` has not returned, whether the work has begun or not."""
    loop, started, ended = asyncio.new_event_loop(), threading.Event(), threading.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    blocked, schedule = threading.Event(), asyncio.run_coroutine_threadsafe

    async def endless() -> None:
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    def interrupted(work: Any, loop: Any) -> Any:
        if not begun:
            loop.call_soon_threadsafe(blocked.wait)
        schedule(work, loop)
        assert not begun or started.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        result_of(endless(), loop)
    blocked.set()
    monkeypatch.undo()
    if begun:
        assert ended.wait(60)
    stop_loop(loop, thread)
    assert started.is_set() == begun


def test_results_and_errors_of_the_work_are_passed_on() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def work(fails: bool) -> int:
        if fails:
            raise ValueError("of the work")
        return 7

    assert result_of(work(False), loop) == 7
    with pytest.raises(ValueError, match="of the work"):
        result_of(work(True), loop)
    stop_loop(loop, thread)
