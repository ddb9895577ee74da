"""What our HTTP servers share: bounded requests, batches in one thread, clear refusals, connections that hold nobody up.

``application`` makes an ASGI application of endpoints, ``listen`` serves it. Needs the extra ``[serve]``.
"""

from creditflow.envs.http.application import application, json_answer
from creditflow.envs.http.batcher import Batcher, BatchLimits, OverloadedError
from creditflow.envs.http.bodies import BadRequestError, read_body, read_json
from creditflow.envs.http.limits import ConnectionLimits
from creditflow.envs.http.listening import bound, listen, make_server, serve, url_of

__all__ = [
    "BadRequestError",
    "BatchLimits",
    "Batcher",
    "ConnectionLimits",
    "OverloadedError",
    "application",
    "bound",
    "json_answer",
    "listen",
    "make_server",
    "read_body",
    "read_json",
    "serve",
    "url_of",
]
