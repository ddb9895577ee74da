"""A client of chat models with cached replies, which the LLM judges share.

What a model thinks before its answer (``<think>…</think>``, or a field of its own) is no part of the reply. A reply that was cut,
or that has thoughts alone, is an error and is never cached.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from creditflow.envs.errors import ConfigError, CreditflowError, DataError, ServiceError, short_repr
from creditflow.envs.files.appended import read_appended
from creditflow.envs.files.paths import checked_path
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey

__all__ = ["VERDICT_TOKENS", "CachedChat", "ChatModel", "ChatQuestion", "unfenced"]

ValueT = TypeVar("ValueT")
VERDICT_TOKENS: Final = 4096  # of a short reply: room for the thoughts before it
_CUT: Final = frozenset(("length", "max_tokens", "model_length", "content_filter"))  # finish reasons of servers
_FENCE: Final = re.compile(r"\s*```[a-z]*\s*(.*?)\s*```\s*", re.DOTALL)
_BEGINNING: Final = '{"key": "['  # of every line of a cache, as ``_keep`` writes it


def unfenced(reply: str) -> str:
    """A reply without the fence of a code block around all of it.

    >>> unfenced("```json [1] ```"), unfenced(" not [1] ")
    ('[1]', 'not [1]')
    """
    block = _FENCE.fullmatch(reply)
    return block[1] if block else reply.strip()


@dataclass(frozen=True, kw_only=True)
class ChatQuestion(Generic[ValueT]):
    """The instruction for a model, and the parsing of its reply.

    Attributes:
        instruction: the system message; the case follows as JSON in the user's message.
        max_tokens: token limit of a reply with its thoughts, unless the chat or ``ask`` is given another.
        field: name of the value in the cache file.
        parse: returns the value in a reply's text; raises ``error`` if there is none.
        is_value: returns whether a JSON value of the cache file is such a value.
        error: class of the error for a reply that is not a chat completion.
        may_be_cut: whether the beginning of a reply is of use.
    """

    instruction: str
    max_tokens: int
    field: str
    parse: Callable[[str], ValueT]
    is_value: Callable[[Any], bool]
    error: type[CreditflowError] = ServiceError
    may_be_cut: bool = False


class CachedChat(Generic[ValueT]):
    """Sends many cases with one instruction to an OpenAI-compatible server, each distinct case once. Thread-safe.

    A thread that asks for a case that another is asking for waits for its value: equal cases have equal values, even if the
    server would answer them differently.

    Args:
        url: base URL, such as "http://127.0.0.1:8000/v1".
        model: name of the model on the server.
        question: instruction and reply format.
        key: parts of the cache key besides the model and the case.
        key_variable: environment variable that holds the API key, which is neither stored nor logged; "" for none.
        cache: path of a JSON Lines file of replies, read at the start and appended to; None or "" for memory only.
        timeout, max_attempts: see ``JsonClient``.
        max_tokens: token limit of a reply, for models that think at length; 0 for the question's.
        client: replaces the client, in tests.

    Raises:
        ConfigError: an invalid URL or number, an unset variable, or a cache that cannot be written.
        DataError: a malformed cache file.
    """

    def __init__(
        self,
        url: str,
        model: str,
        question: ChatQuestion[ValueT],
        *,
        key: tuple[str, ...] = (),
        key_variable: str = "",
        cache: str | None = None,
        timeout: float = 60.0,
        max_attempts: int = 5,
        max_tokens: int = 0,
        client: JsonClient | None = None,
    ) -> None:
        if max_tokens < 0:
            raise ConfigError(f"max_tokens must be at least 1, or 0 for the default, got {short_repr(max_tokens)}")
        self._max_tokens = max_tokens
        api_key = ApiKey.named(key_variable)
        self.client = client or JsonClient([url], timeout=timeout, max_attempts=max_attempts, key=api_key)
        self._model, self._key = model, key
        self._question: ChatQuestion[ValueT] = question
        self._path = checked_path("cache", cache) if cache else None
        self._lock = threading.Lock()
        self._values: dict[str, ValueT] = {}
        self._asked: dict[str, Future[ValueT]] = {}  # cases whose reply has not come yet
        if self._path is not None:
            try:
                if self._path.is_dir() or not self._path.parent.is_dir():
                    raise ConfigError(f"a cache is a file in a folder that exists, got {short_repr(cache)}")
                if self._path.exists():
                    self._read(self._path)
            except OSError as error:
                raise ConfigError(
                    f"a cache that cannot be read and written: {short_repr(cache)}: {error.strerror}"
                ) from error

    def _read(self, path: Path) -> None:
        field = self._question.field
        for where, row in read_appended(path, _BEGINNING, "a cache of replies"):
            if (
                not isinstance(row, dict)
                or type(row.get("key")) is not str
                or not self._question.is_value(row.get(field))
            ):
                raise DataError(
                    f"{where}: not a cached reply, expected the keys 'key' and {field!r}; remove the line or the file"
                )
            self._values[row["key"]] = row[field]

    def ask(self, case: Mapping[str, Any], *, max_tokens: int = 0) -> ValueT:
        """Return the model's value for a case, from the cache if it has one.

        Args:
            case: what the question is about, sent as JSON.
            max_tokens: token limit of the reply, if it depends on the case and the chat has none; 0 for the question's.

        Raises:
            ServiceError: the server cannot be reached.
            CreditflowError: an invalid reply (``ChatQuestion.error``).
        """
        key = json.dumps([self._model, *self._key, case], sort_keys=True)
        with self._lock:
            if key in self._values:
                return self._values[key]
            pending = self._asked.get(key)
            future: Future[ValueT] = Future()
            if pending is None:
                self._asked[key] = future
        if pending is not None:
            return pending.result()
        try:
            value = self._question.parse(
                self._complete(case, self._max_tokens or max_tokens or self._question.max_tokens)
            )
            self._keep(key, value)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(value)
            return value
        finally:
            with self._lock:
                del self._asked[key]

    def _keep(self, key: str, value: ValueT) -> None:
        """Add a value to the cache and its file."""
        with self._lock:
            self._values[key] = value
            if self._path is not None:
                with self._path.open("a", encoding="ascii") as file:
                    file.write(json.dumps({"key": key, self._question.field: value}) + "\n")

    def _complete(self, case: Mapping[str, Any], max_tokens: int) -> str:
        """Return the text of the model's completion."""
        reply = self.client.post(
            "/chat/completions",
            {
                "model": self._model,
                "temperature": 0,
                "max_tokens": max_tokens,
                "messages": [
                    {"role": "system", "content": self._question.instruction},
                    {"role": "user", "content": json.dumps(case, ensure_ascii=False)},
                ],
            },
        )
        try:
            choice = reply["choices"][0]
            message, finish = choice["message"], choice.get("finish_reason")
            content = message.get("content")
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise self._question.error(f"the model's reply is not a chat completion: {str(reply)[:80]!r}") from error
        text, cut = "" if content is None else str(content), finish in _CUT
        answer = text.rpartition("</think>")[2]
        fields = ", ".join(name for name in ("reasoning", "reasoning_content") if message.get(name))
        thoughts_alone = "<think>" in answer or (fields and not answer.strip())
        if (cut and not self._question.may_be_cut) or thoughts_alone:
            how = "was cut" if cut else "has thoughts alone"
            raise self._question.error(
                f"the model's reply {how} (finish_reason {finish!r}, max_tokens {max_tokens}"
                + (f", with text in the field {fields}" if fields else "")
                + f"), so it has no answer: {short_repr(text[:80])}. Give the model more room: max_tokens=…"
            )
        return answer


class ChatModel:
    """A served model that is asked one kind of question, ``question``.

    Args:
        url: base URL of an OpenAI-compatible server, such as "http://127.0.0.1:8000/v1".
        model: its name there.
        **options: key_variable, cache, timeout, max_attempts, max_tokens and client of ``CachedChat``.

    Raises:
        DataError: the cache file is malformed.
    """

    question: ClassVar[ChatQuestion[Any]]

    def __init__(self, url: str, model: str, **options: Any) -> None:
        self.chat = CachedChat(url, model, self.question, **options)

    @classmethod
    def from_options(cls, options: Any, what: str) -> Self:
        """A model from plain values: ``{"url": …, "model": …, "key_variable": …, "cache": …}``.

        Args:
            options: the arguments but ``client``.
            what: who takes them, for the message: "a judge".

        Raises:
            ConfigError: a missing, unknown or wrong option.
            DataError: the cache file is malformed.
        """
        takes = f"{what} takes {', '.join(_OPTIONS)}"
        if not isinstance(options, Mapping):
            raise ConfigError(f"{takes}, got {short_repr(options)}")
        for name, value in options.items():
            if name not in _OPTIONS:
                raise ConfigError(f"{takes}; got {short_repr(name)}")
            if type(value) not in _OPTIONS[name]:
                raise ConfigError(f"{takes}; its {name} has a wrong type, got {short_repr(value)}")
        if missing := [name for name in ("url", "model") if not options.get(name)]:
            raise ConfigError(f"{takes}; {missing[0]} is missing")
        return cls(**options)


_TEXT: Final = (str,)
_OPTIONS: Final[Mapping[str, tuple[type, ...]]] = {
    "url": _TEXT,
    "model": _TEXT,
    "key_variable": _TEXT,
    "cache": (str, type(None)),
    "timeout": (int, float),
    "max_attempts": (int,),
    "max_tokens": (int,),
}
