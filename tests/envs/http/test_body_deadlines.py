"""The deadlines of bodies, with a simulated clock: nothing waits, and times are exact."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.http import BadRequestError, bodies, read_body

pytest.importorskip("starlette", reason="the servers need the extra [serve]")
LIMIT = 1_000


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer whenever there is nothing else to do."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "the test waits for something that never comes"
        self._loop.jump(timeout)
        return super().select(0)


def request_of(memory: bodies.BodyMemory, parts: list[float], size: int) -> Any:
    """A request with a part of ``size`` bytes after each of these pauses."""

    async def stream() -> AsyncIterator[bytes]:
        for pause in parts:
            await asyncio.sleep(pause)
            yield b"x" * size
        yield b""

    app = SimpleNamespace(state=SimpleNamespace(body_memory=memory))
    return SimpleNamespace(app=app, scope={}, stream=stream)


async def outcome(request: Any, start: float, seconds: float, answer: float) -> tuple[str, float]:
    """How a request that starts then, and takes ``answer`` seconds after its body, ends, and when."""
    loop = asyncio.get_running_loop()

    async def endpoint(request: Any) -> Any:
        body = await read_body(request, LIMIT)
        await asyncio.sleep(answer)
        return f"read {len(body)}"

    await asyncio.sleep(start)
    try:
        result: Any = await bodies.with_deadline(endpoint, seconds)(request)
    except BadRequestError as error:
        result = str(error.status)
    except TimeoutError:
        result = "too late"
    return result, loop.time() - start


def play(
    requests: list[tuple[float, list[float], float, float]], size: int = 10
) -> tuple[list[Any], bodies.BodyMemory]:
    """Outcomes of requests (start, pauses of the body's parts, deadline, seconds of the answer), all at one server."""

    async def run() -> tuple[list[Any], bodies.BodyMemory]:
        memory = bodies.BodyMemory()
        found = await asyncio.gather(
            *(
                outcome(request_of(memory, parts, size), start, seconds, answer)
                for start, parts, seconds, answer in requests
            )
        )
        return list(found), memory

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


# no two events at one time: pauses, answers and deadlines are numbers with different remainders
PAUSES = st.lists(st.integers(0, 15).map(lambda n: n + 0.2), min_size=1, max_size=4)
REQUESTS = st.tuples(
    st.integers(0, 60).map(float),
    PAUSES,
    st.integers(1, 60).map(lambda n: n + 0.5),
    st.integers(0, 40).map(lambda n: n + 0.125),
)


@given(st.lists(REQUESTS, min_size=1, max_size=8))
def test_the_deadlines_of_a_body_and_of_its_request_do_not_depend_on_other_requests(requests: list[Any]) -> None:
    found, memory = play(requests)
    for (_, parts, seconds, answer), (result, ended) in zip(requests, found, strict=True):
        body = sum(parts)
        if min(body, seconds) > bodies.BODY_SECONDS:
            assert (result, ended) == ("408", pytest.approx(bodies.BODY_SECONDS))
        elif body + answer > seconds:
            assert (result, ended) == ("too late", pytest.approx(seconds))
        else:
            assert (result, ended) == (f"read {10 * len(parts)}", pytest.approx(body + answer))
    assert memory.used == 0


def test_when_memory_is_needed_the_oldest_body_is_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MIN_BODIES", 1)
    monkeypatch.setattr(bodies, "MAX_UNFINISHED", 1)
    stalled, good = [0.0, 100.0], [0.0]
    found, memory = play([(1.0, stalled, 60.0, 0.0), (2.0, stalled, 60.0, 0.0), (3.0, good, 60.0, 0.0)], size=600)
    assert found == [("408", pytest.approx(1.0)), ("408", pytest.approx(1.0)), ("read 600", pytest.approx(0.0))]
    assert memory.used == 0
