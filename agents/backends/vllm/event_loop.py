"""The end of an event loop that runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

__all__ = ["stop_loop"]

SECONDS: Final = 10.0  # for the tasks to end after their cancellation


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
