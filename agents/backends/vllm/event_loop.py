"""Work for an event loop that runs in another thread: its result, its cancellation, and the end of the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["result_of", "stop_loop"]

SECONDS: Final = 10.0  # for the tasks to end after their cancellation


def result_of(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """Run a coroutine in the loop and return its result; whatever ends the waiting, such as Ctrl-C at any moment, cancels it.

    The future of ``run_coroutine_threadsafe`` alone would not do: Ctrl-C may come before it is returned.
    """
    tasks: list[asyncio.Task[Any]] = []
    given_up = threading.Event()

    async def kept() -> Any:
        if task := asyncio.current_task():
            tasks.append(task)
        if given_up.is_set():  # from here on whoever gives up finds the task
            work.close()
            raise asyncio.CancelledError
        return await work

    try:
        return asyncio.run_coroutine_threadsafe(kept(), loop).result()
    except BaseException:
        given_up.set()
        if not loop.is_closed():
            for task in tasks:
                loop.call_soon_threadsafe(task.cancel)
        raise


def stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, seconds: float = SECONDS) -> None:
    """Cancel the loop's tasks, wait until they have ended, and close the loop; a closed one is left alone.

    Args:
        loop: an event loop.
        thread: the thread that runs it.
        seconds: how long to wait; a task that ignores its cancellation is left behind.
    """
    if loop.is_closed():
        return
    if thread.is_alive():  # nothing could answer in a loop that has stopped
        asyncio.run_coroutine_threadsafe(_end_tasks(seconds), loop).result()
        loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _end_tasks(seconds: float) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
