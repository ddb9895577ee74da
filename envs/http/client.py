"""A JSON client with a deadline per exchange, a limit on the response size, retries, and several URLs.

The standard library's HTTP client has a timeout per read only, so a server that sends a byte now and then could block a
caller forever. Here a timer shuts the socket down at the deadline. httpx, requests, urllib3 and the openai client do not
bound a whole exchange either (a slow server held each for four times its limit); aiohttp does, but would bring an event
loop into synchronous callers.

httpx and urllib3 also have no limit on the response size, and would be the first HTTP packages in the core install
(httpx brings five more); they follow redirects, read proxies and ``.netrc`` from the environment and log URLs, all of
which would have to be disabled to control where a key is sent. This client does none of it: a redirect is an error, so a
key is sent only to the given host.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from creditflow.envs.errors import ConfigError, DataError, ServiceError, short_repr
from creditflow.envs.http.credentials import ApiKey, check_url
from creditflow.envs.reading.json_text import parse_json
from creditflow.envs.reading.limits import Limits

__all__ = ["JsonClient"]

MAX_TIMEOUT: Final = 86_400  # seconds; timers of the operating system take no endless ones
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_MAX_ERROR_BYTES: Final = 4_096  # of the body of an error response that are read
_MAX_ERROR_CHARACTERS: Final = 160  # of it that are reported


class _ExchangeError(Exception):
    """One exchange failed; ``final`` if a retry is useless."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class JsonClient:
    """Sends and receives JSON. Thread-safe; keeps no connection open.

    Args:
        urls: base URLs ("http://host:port/path"), tried in turn.
        timeout: seconds for one exchange, from connecting to the last byte; at most a day.
        max_attempts: most attempts, over all URLs.
        backoff: seconds before the second attempt; doubles each time, up to 10.
        max_bytes: most bytes of a response.
        key: API key sent with every request; no error, result or log contains it.
        key_header: name of the header that carries it, such as "X-API-KEY".
        sleep: function that waits; replaced in tests.

    Raises:
        ConfigError: an invalid URL or number.
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
        key_header: str = "Authorization",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not urls or not 0 < timeout <= MAX_TIMEOUT or max_attempts < 1 or backoff < 0 or max_bytes < 1:
            raise ConfigError(
                f"a client needs at least one URL, a timeout above 0 and at most {MAX_TIMEOUT:,} s, max_attempts ≥ 1, "
                "backoff ≥ 0 and max_bytes ≥ 1"
            )
        self.urls = tuple(check_url(url) for url in urls)
        self._timeout, self._max_attempts, self._backoff, self._max_bytes = timeout, max_attempts, backoff, max_bytes
        if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", key_header):
            raise ConfigError(f"key_header is the name of an HTTP header, got {short_repr(key_header)}")
        self._key, self._key_header = key, key_header
        self._sleep = sleep
        self._next = 0
        self._aborts = 0
        self._under_way: set[Callable[[], None]] = set()  # each ends one exchange

    def post(self, path: str, body: Any) -> Any:
        """POST a JSON body and return the JSON response, plain data with finite numbers and unique keys.

        Raises:
            ServiceError: no valid response from any URL; states the errors of the last attempts.
        """
        return self._request(path, json.dumps(body).encode("ascii"))

    def get(self, path: str) -> Any:
        """GET a path and return the JSON response.

        Raises:
            ServiceError: as ``post``.
        """
        return self._request(path, None)

    def abort(self) -> None:
        """End all exchanges under way in other threads: their requests fail without another attempt. Later ones are served."""
        self._aborts += 1
        for end in list(self._under_way):
            end()

    def _request(self, path: str, data: bytes | None) -> Any:
        reasons = []
        aborts = self._aborts
        for attempt in range(self._max_attempts):
            url = self.urls[self._next % len(self.urls)] + path
            try:
                return self._exchange(url, data, aborts)
            except _ExchangeError as failure:
                if self._aborts != aborts:
                    raise ServiceError(f"{url}: the request was aborted") from None
                reasons.append(f"{url}: {failure}")
                self._next += 1  # another URL may work
                if failure.final:
                    break
            if attempt + 1 < self._max_attempts:
                self._sleep(min(self._backoff * 2**attempt, 10.0))
        raise ServiceError("no valid response from the server; " + "; ".join(reasons[-3:]))

    def _exchange(self, url: str, data: bytes | None, aborts: int) -> Any:
        target = urlsplit(url)
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        connection = kind(target.hostname or "", target.port, timeout=self._timeout)
        expired = threading.Event()
        sockets: list[socket.socket] = []  # http.client drops its reference once a response ends the connection

        def expire() -> None:
            expired.set()
            for sock in sockets:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # already closed

        timer = threading.Timer(self._timeout, expire)
        timer.daemon = True
        timer.start()
        self._under_way.add(expire)
        if self._aborts != aborts:  # aborted before there was an exchange to end
            expire()
        try:
            connection.connect()
            sockets.append(connection.sock)
            if expired.is_set():  # the timer fired while connecting, before there was a socket to shut down
                raise TimeoutError
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            headers |= self._key.headers(self._key_header) if self._key else {}
            connection.request("GET" if data is None else "POST", target.path or "/", data, headers)
            response = connection.getresponse()
            text = response.read(self._max_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            late = expired.is_set() or isinstance(error, TimeoutError)  # whichever timeout fires first
            reason = f"no response within {self._timeout:g} s" if late else f"{type(error).__name__}: {error}"
            raise _ExchangeError(
                self._without_key(reason)
            ) from None  # the cause may quote a key that the server echoed
        finally:
            timer.cancel()
            self._under_way.discard(expire)
            connection.close()
        if expired.is_set():
            raise _ExchangeError(f"no response within {self._timeout:g} s")
        if len(text) > self._max_bytes:
            raise _ExchangeError(f"the response is larger than {self._max_bytes} bytes", final=True)
        if 300 <= response.status < 400:
            raise _ExchangeError(
                f"status {response.status}: a redirect, which is not followed: give the target URL", final=True
            )
        if response.status != 200:
            body = self._without_key(text[:_MAX_ERROR_BYTES].decode("latin-1")).encode("latin-1")
            raise _ExchangeError(f"status {response.status}: {body!r}", final=response.status not in _RETRIED)
        try:
            response_json = parse_json(text, where="the response", limits=Limits(characters=self._max_bytes))
        except DataError as error:
            raise _ExchangeError(self._without_key(str(error))) from None
        return self._key.hidden_within(response_json) if self._key else response_json

    def _without_key(self, text: str) -> str:
        """Return the text of an error, shortened and without the key."""
        return (self._key.hidden_in(text[:_MAX_ERROR_BYTES]) if self._key else text)[:_MAX_ERROR_CHARACTERS]
