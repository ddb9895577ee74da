"""Fixtures: every server of ours, with its usual limits and with few connections and little time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.servers.adversary import Target
from helpers.servers.attacked import SERVERS, TIGHT, attacked


@pytest.fixture(params=SERVERS, scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server with its usual limits."""
    with attacked(request.param) as found:
        yield found


@pytest.fixture(params=SERVERS, scope="module")
def tight(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server with few connections and little time."""
    with attacked(request.param, TIGHT) as found:
        yield found
