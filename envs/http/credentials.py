"""Keys and URLs of servers that we ask: where a key may stand (an environment variable), and where it must never show.

URLs are written into logs, provenance and error messages, so one that could hold a key is refused, and not quoted.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final
from urllib.parse import urlsplit

from creditflow.envs.errors import ConfigError

__all__ = ["ApiKey", "check_url", "shown"]

REPEATED: Final = 8  # as many characters of a key in a row give it away; shorter keys ("EMPTY") are no secrets
HIDDEN: Final = "[key]"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_PATH: Final = re.compile(r"[A-Za-z0-9._~/:+,-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ApiKey:
    """A key that is sent to servers and shown to nobody: neither by ``repr`` nor in a pickle.

    Args:
        text: the key.
        source: where it comes from, for messages.

    Raises:
        ConfigError: no header can carry it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str, source: str = "the API key") -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ConfigError(f"{source} holds characters that no key has, or nothing; it is not shown here")
        self._text = text

    @classmethod
    def from_environment(cls, variable: str, *, required: bool = False) -> ApiKey | None:
        """The key in an environment variable; None if there is none.

        Args:
            variable: its name.
            required: it must be there.

        Raises:
            ConfigError: no name of a variable (a key, perhaps: it is not quoted), or not set.
        """
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError("a key is given as the name of an environment variable that holds it, not as itself")
        text = os.environ.get(variable, "").strip()
        if not text and required:
            raise ConfigError("the environment variable that was named for the key is not set, or empty")
        return cls(text, f"the environment variable {variable}") if text else None

    def headers(self) -> dict[str, str]:
        """What a request says."""
        return {"Authorization": f"Bearer {self._text}"}

    def is_in(self, value: Any) -> bool:
        """Whether parsed JSON repeats it anywhere."""
        if len(self._text) < REPEATED:
            return False
        stack = [value]
        while stack:
            one = stack.pop()
            if isinstance(one, str) and self._text in one:
                return True
            if isinstance(one, dict):
                stack += one.keys()
                stack += one.values()
            elif isinstance(one, list):
                stack += one
        return False

    def hidden_in(self, text: str) -> str:
        """The text without it, whole or in part."""
        text = text.replace(self._text, HIDDEN)
        parts = {self._text[i : i + REPEATED] for i in range(len(self._text) - REPEATED + 1)}
        out, at = [], 0
        while at < len(text):
            if text[at : at + REPEATED] not in parts:
                out.append(text[at])
                at += 1
                continue
            end = at + REPEATED
            while end < len(text) and text[end - REPEATED + 1 : end + 1] in parts:
                end += 1
            out.append(HIDDEN)
            at = end
        return "".join(out)

    def __repr__(self) -> str:
        return "ApiKey(not shown)"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled: read it from the environment where it is needed")


def check_url(url: Any) -> str:
    """A server's base URL: scheme, host, port and path, and nothing that could hold a name, password or key.

    >>> check_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'

    Raises:
        ConfigError: anything else; what could hold a secret is not quoted.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) and url.isprintable() else urlsplit("")
        plain = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number, or too large a one; brackets that do not close
        plain = False
    if not plain:
        raise ConfigError(f"a server's URL looks like http://127.0.0.1:8000, got {shown(url)}")
    if url.rstrip("/") != f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/") or not (
        _HOST.fullmatch(parts.netloc) and _PATH.fullmatch(parts.path)
    ):
        raise ConfigError(
            "a server's URL is written into logs: no names, passwords, keys or queries in it, only scheme, host, port "
            f"and path, as in http://127.0.0.1:8000/v1; a key comes from an environment variable. Got {shown(url)}"
        )
    return str(url).rstrip("/")


def shown(text: Any) -> str:
    """A user's text in an error message, unless it could hold a password or key.

    >>> shown("htp://127.0.0.1"), shown("http://me:secret@host")
    ("'htp://127.0.0.1'", 'a text that is not shown, as it could hold a password or key')
    """
    if not isinstance(text, str):
        return type(text).__name__
    if set(text) & set("@?%&;="):
        return "a text that is not shown, as it could hold a password or key"
    return repr(text[:80])
