"""The application of a server: OpenEnv's own routes behind ``Guard``."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import ConcurrencyConfig
from starlette.responses import JSONResponse

from creditflow.envs.errors import CreditflowError, EpisodeError, ServiceError, UnknownTaskError
from creditflow.train.adapters.openenv.environment import ServedEnv
from creditflow.train.adapters.openenv.models import FullObservation, PlayAction, PlayState, TextObservation
from creditflow.train.adapters.openenv.served import Served
from creditflow.train.adapters.openenv.session import Guard, SessionLimits
from creditflow.train.adapters.releases import OPENENV

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["make_app"]

STATUS: dict[type[Exception], int] = {EpisodeError: 409, UnknownTaskError: 404, ServiceError: 502, CreditflowError: 422}


def make_app(served: Served, limits: SessionLimits | None = None, hosts: Sequence[str] = ()) -> Guard:
    """Make the ASGI application that serves an environment.

    Args:
        served: what to serve.
        limits: limits of sessions and messages; None for the defaults.
        hosts: host names that are accepted besides this machine's own; "*": any.

    Raises:
        MissingExtraError: OpenEnv is not installed.
        ConfigError: an untested release of it is installed.
    """
    OPENENV.require()
    limits = limits or SessionLimits()
    app = create_app(
        functools.partial(ServedEnv, served),
        PlayAction,
        FullObservation if served.observation == "full" else TextObservation,
        env_name=served.name,
        state_cls=PlayState,
        # sessions of /mcp, which have no connection that could be seen idle, are ended by OpenEnv, and later than ours
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=limits.sessions, session_timeout=limits.idle_seconds + limits.seconds
        ),
    )
    for kind, status in STATUS.items():
        app.add_exception_handler(kind, _respond(status))
    app.add_exception_handler(Exception, _respond(500, "internal error of the environment server"))
    return Guard(app, limits, hosts)


def _respond(status: int, text: str = "") -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(_: Any, error: Exception) -> Response:
        return JSONResponse({"detail": text or str(error)}, status)

    return respond
