"""Ctrl-C in a run: the step that is being computed is finished and saved, so that nothing is lost; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["StopRequest"]


class StopRequest:
    """While the block runs, the first SIGINT is noted instead of raised; the next raises ``KeyboardInterrupt`` as usual.

    Outside the main thread, where Python gives signals to nobody, it does nothing.

    Args:
        say: prints a line that tells what happens.

    Attributes:
        made: whether the user asked to stop.
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self.made = say, False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if self.made:
            raise KeyboardInterrupt
        self.made = True
        self._say("stopping after this step, which is saved; press Ctrl-C again to stop at once, without it")
