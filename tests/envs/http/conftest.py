"""A fixture: every server of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.servers.adversary import Target
from helpers.servers.attacked import SERVERS, attacked


@pytest.fixture(params=SERVERS, scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A server."""
    with attacked(request.param) as found:
        yield found
