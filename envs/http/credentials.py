"""API keys and URLs of servers: a key comes from an environment variable and never appears in any output.

URLs are written into logs, provenance and error messages, so a URL that could contain a key is rejected and not quoted.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final
from urllib.parse import urlsplit

from creditflow.envs.errors import ConfigError

__all__ = ["ApiKey", "check_url", "redacted_repr"]

HIDDEN: Final = "[key]"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_PATH: Final = re.compile(r"[A-Za-z0-9._~/:+,-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ApiKey:
    """A key that is sent to servers and never shown in ``repr``, pickles and messages.

    Args:
        text: the key.
        source: where it comes from, for error messages.

    Raises:
        ConfigError: an HTTP header cannot carry it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str, source: str = "the API key") -> None:
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ConfigError(
                f"{source} is empty or contains characters that no API key has (its text is withheld here)"
            )
        self._text = text

    @classmethod
    def from_environment(cls, variable: str, *, required: bool = False) -> ApiKey | None:
        """Return the key in an environment variable, or None if the variable is unset or empty.

        Args:
            variable: name of the variable.
            required: raise if the variable is unset or empty.

        Raises:
            ConfigError: not a variable name (perhaps the key itself, so it is not quoted), or required and unset.
        """
        if not _VARIABLE.fullmatch(variable):
            raise ConfigError("pass the name of the environment variable that contains the API key, not the key itself")
        text = os.environ.get(variable, "").strip()
        if not text and required:
            raise ConfigError("the environment variable of the API key is unset or empty")
        return cls(text, f"the environment variable {variable}") if text else None

    @classmethod
    def named(cls, variable: str) -> ApiKey | None:
        """Return the key in the environment variable that a user named, which must be set, or None if none was named ("")."""
        return cls.from_environment(variable, required=True) if variable else None

    def headers(self, name: str = "Authorization") -> dict[str, str]:
        """Return the HTTP headers that authorise a request; a header of another name carries the key alone."""
        return {name: f"Bearer {self._text}" if name == "Authorization" else self._text}

    def hidden_in(self, text: str) -> str:
        """Return the text with the key replaced."""
        return text.replace(self._text, HIDDEN)

    def hidden_within(self, value: Any) -> Any:
        """Return JSON data with the key replaced in every text: a server may echo it, and errors and logs quote replies."""
        if isinstance(value, str):
            return self.hidden_in(value)
        if isinstance(value, dict):
            return {self.hidden_in(name): self.hidden_within(item) for name, item in value.items()}
        return [self.hidden_within(item) for item in value] if isinstance(value, list) else value

    def __repr__(self) -> str:
        return "ApiKey(withheld)"

    def __reduce__(self) -> str:
        raise TypeError("an API key cannot be pickled: read it from the environment of the process that needs it")


def check_url(url: Any) -> str:
    """Return a server's base URL (scheme, host, port, path) if nothing in it could be a name, password or key.

    >>> check_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'

    Raises:
        ConfigError: any other value; a text that could contain a secret is not quoted.
    """
    try:
        split = urlsplit(url) if isinstance(url, str) and url.isprintable() else urlsplit("")
        plain = split.scheme in ("http", "https") and bool(split.hostname) and (split.port or 1) > 0
    except ValueError:  # an invalid port, or unbalanced brackets
        plain = False
    if not plain:
        raise ConfigError(f"expected a server's URL such as http://127.0.0.1:8000, got {redacted_repr(url)}")
    if url.rstrip("/") != f"{split.scheme}://{split.netloc}{split.path}".rstrip("/") or not (
        _HOST.fullmatch(split.netloc) and _PATH.fullmatch(split.path)
    ):
        raise ConfigError(
            "a server's URL is written into logs, so it may contain only scheme, host, port and path, as in "
            f"http://127.0.0.1:8000/v1; an API key comes from an environment variable. Got {redacted_repr(url)}"
        )
    return str(url).rstrip("/")


def redacted_repr(text: Any) -> str:
    """Return the ``repr`` of a user's text for an error message, unless it could contain a password or key.

    >>> redacted_repr("htp://127.0.0.1"), redacted_repr("http://me:secret@host")
    ("'htp://127.0.0.1'", 'a text withheld because it could contain a password or key')
    """
    if not isinstance(text, str):
        return type(text).__name__
    if set(text) & set("@?%&;="):
        return "a text withheld because it could contain a password or key"
    return repr(text[:80])
