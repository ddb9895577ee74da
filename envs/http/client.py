"""JSON over HTTP with hard limits: a deadline for the whole exchange, a cap on the answer's size, retries, several URLs.

The standard library's client has a timeout per read, so a server that sends a byte now and then would hold a caller
for ever. Here a timer shuts the socket at the deadline.

It is used nevertheless. httpx and urllib3 have timeouts per read too, no cap on an answer's size, and would be the first
HTTP packages in the core install (httpx brings five more); they follow redirections, read proxies and ``.netrc`` from the
environment and log URLs, all of which would have to be switched off to know where a key goes. This client does none of
it: a redirection is an error, so a key is sent to the given host and to nobody else.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from creditflow.envs.errors import ConfigError
from creditflow.envs.http.credentials import ApiKey, check_url
from creditflow.envs.wikisearch.retrieval.base import RetrievalError

__all__ = ["JsonClient"]

_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_READ: Final = 4_096  # bytes of a failure's text that are looked at
_SAID: Final = 160  # characters of it that are told


class _ExchangeError(Exception):
    """One exchange failed; ``final`` if trying again is useless."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class JsonClient:
    """Sends and reads JSON. Safe for threads; keeps no connection open.

    Args:
        urls: base URLs ("http://host:port/path"), tried in turn.
        timeout: seconds for one exchange, from connecting to the last byte.
        max_attempts: exchanges before giving up, over all URLs.
        backoff: seconds before the second try; doubles each time, up to 10.
        max_bytes: of one answer.
        key: sent with every request; no error, answer or log repeats it.
        sleep: waits; replaced in tests.

    Raises:
        ConfigError: a wrong URL or number.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        timeout: float = 30.0,
        max_attempts: int = 4,
        backoff: float = 0.2,
        max_bytes: int = 64 * 2**20,
        key: ApiKey | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not urls or timeout <= 0 or max_attempts < 1 or backoff < 0 or max_bytes < 1:
            raise ConfigError(
                "a client needs at least one URL, timeout > 0, max_attempts ≥ 1, backoff ≥ 0 and max_bytes ≥ 1"
            )
        self.urls = tuple(check_url(url) for url in urls)
        self._timeout, self._max_attempts, self._backoff, self._max_bytes = timeout, max_attempts, backoff, max_bytes
        self._key = key
        self._sleep = sleep
        self._next = 0

    def post(self, path: str, body: Any) -> Any:
        """The JSON answer to a JSON body.

        Raises:
            RetrievalError: no URL answered properly; says what each of the last max_attempts met.
        """
        return self._ask(path, json.dumps(body).encode("ascii"))

    def get(self, path: str) -> Any:
        """The JSON answer to a request without a body.

        Raises:
            RetrievalError: as ``post``.
        """
        return self._ask(path, None)

    def _ask(self, path: str, data: bytes | None) -> Any:
        reasons = []
        for attempt in range(self._max_attempts):
            url = self.urls[self._next % len(self.urls)] + path
            try:
                return self._exchange(url, data)
            except _ExchangeError as failure:
                reasons.append(f"{url}: {failure}")
                self._next += 1  # the others may be alive
                if failure.final:
                    break
            if attempt + 1 < self._max_attempts:
                self._sleep(min(self._backoff * 2**attempt, 10.0))
        raise RetrievalError("the server gave no usable answer; " + "; ".join(reasons[-3:]))

    def _exchange(self, url: str, data: bytes | None) -> Any:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout)
        expired = threading.Event()
        held: list[socket.socket] = []  # http.client forgets its socket once a response is to end the connection

        def expire() -> None:
            expired.set()
            for sock in held:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # closed already

        timer = threading.Timer(self._timeout, expire)
        timer.daemon = True
        timer.start()
        try:
            connection.connect()
            held.append(connection.sock)
            if expired.is_set():  # while it connected, and there was nothing to shut yet
                raise TimeoutError
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            headers |= self._key.headers() if self._key else {}
            connection.request("GET" if data is None else "POST", parts.path or "/", data, headers)
            response = connection.getresponse()
            text = response.read(self._max_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            late = expired.is_set() or isinstance(error, TimeoutError)  # whichever clock strikes first
            reason = f"no answer within {self._timeout:g} s" if late else f"{type(error).__name__}: {error}"
            raise _ExchangeError(self._told(reason)) from None  # the cause may quote what the server repeated
        finally:
            timer.cancel()
            connection.close()
        if expired.is_set():
            raise _ExchangeError(f"no answer within {self._timeout:g} s")
        if len(text) > self._max_bytes:
            raise _ExchangeError(f"the answer is larger than {self._max_bytes} bytes", final=True)
        if 300 <= response.status < 400:
            raise _ExchangeError(
                f"status {response.status}: it redirects, which is not followed: give the URL itself", final=True
            )
        if response.status != 200:
            said = self._told(text[:_READ].decode("latin-1")).encode("latin-1")
            raise _ExchangeError(f"status {response.status}: {said!r}", final=response.status not in _AGAIN)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _ExchangeError(f"the answer is no JSON: {self._told(str(error))}") from None
        if self._key is not None and self._key.is_in(answer):
            raise _ExchangeError("the answer repeats the key that it was sent, so it is not taken", final=True)
        return answer

    def _told(self, text: str) -> str:
        """A failure's text for people, without the key."""
        return (self._key.hidden_in(text[:_READ]) if self._key else text)[:_SAID]
