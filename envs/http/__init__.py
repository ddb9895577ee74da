"""Shared parts of our HTTP servers: bounded requests, batching, clear error responses. They are made for loopback.

``application`` makes an ASGI application from endpoints, ``listen`` serves it; both need the extra ``[serve]``. ``client`` is
the HTTP client.
"""

from creditflow.envs.http.application import application, json_response
from creditflow.envs.http.batcher import Batcher, BatchLimits, OverloadedError
from creditflow.envs.http.bodies import BadRequestError, read_body, read_json
from creditflow.envs.http.listening import bound, listen, make_server, url_of

__all__ = [
    "BadRequestError",
    "BatchLimits",
    "Batcher",
    "OverloadedError",
    "application",
    "bound",
    "json_response",
    "listen",
    "make_server",
    "read_body",
    "read_json",
    "url_of",
]
