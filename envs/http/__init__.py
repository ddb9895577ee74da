"""Shared parts of our HTTP servers: bounded requests, clear error responses. They are made for loopback.

``application`` makes an ASGI application from endpoints, ``listen`` serves it; both need the extra ``[serve]``. ``client`` is
the HTTP client.
"""

from creditflow.envs.http.application import application, json_response
from creditflow.envs.http.bodies import BadRequestError, read_body, read_json
from creditflow.envs.http.listening import bound, listen, make_server, url_of
from creditflow.envs.http.worker import OverloadedError, Worker

__all__ = [
    "BadRequestError",
    "OverloadedError",
    "Worker",
    "application",
    "bound",
    "json_response",
    "listen",
    "make_server",
    "read_body",
    "read_json",
    "url_of",
]
