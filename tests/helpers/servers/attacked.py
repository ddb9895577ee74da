"""Our HTTP servers on stand-in engines, for tests that attack them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from helpers.servers.adversary import Target
from helpers.servers.http_server import served

from creditflow.envs.wikisearch.retrieval.base import Hit, Passage

LARGE = "long " * 4_000


class Engine:
    """Finds the same passage for everything."""

    digest = "stub"
    before: Callable[[], object] = staticmethod(lambda: None)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        self.before()
        return [[Hit(Passage("0", "Title", LARGE, "Title"), 1.0)] * k for _ in queries]

    def visit(self, ids: Sequence[str], goal: str = "") -> list[tuple[Passage, ...] | None]:
        return [None for _ in ids]

    def fetch(self, ids: Sequence[str]) -> list[Passage]:
        return []


def search(engine: Engine | None = None) -> Any:
    from creditflow.envs.wikisearch.retrieval.server import create_app

    return create_app(engine or Engine())


SERVERS: dict[str, tuple[Callable[..., Any], str, bytes, int]] = {
    "search": (search, "/retrieve", b'{"queries": ["a"]}', 200),
}


@contextlib.contextmanager
def attacked(name: str, **options: Any) -> Iterator[Target]:
    pytest.importorskip("starlette", reason="the servers need the extra [serve]")
    make, path, body, wanted = SERVERS[name]
    with served(make(**options)) as url:
        yield Target(url, path, body, wanted)
