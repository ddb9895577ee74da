"""Ctrl-C while vLLM's asynchronous engine works: the work ends too. No vLLM: its engine is a stand-in."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from creditflow.agents.backends.vllm.async_engine import VllmAsyncEngine


def test_work_that_nobody_waits_for_any_more_is_cancelled() -> None:
    loop, cancelled = asyncio.new_event_loop(), threading.Event()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def endless() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.sleep(600)
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
