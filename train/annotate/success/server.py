"""A success model behind HTTP: PiCA's released reward service, and our own exact one beside it.

``POST /get_reward``  {"query": [text, …], "prompts": []} → {"rewards": [[h, …] a text], "scores": the same, "extra_logs":
                      {"dummy_scores": the same}}; h, one for each placeholder in the text, is the probability that the
                      step which ends there is the first error. For models of hazards only.
``POST /success``     {"episodes": [{"turns": [{"observation", "action", "response", "valid"}, …]}, …]} → {"success":
                      [[f(0), …, f(T)] an episode], "model", "parameters"}: what ``annotate --with success:DIR`` writes, of any model.
``GET /health``       which model, how busy it is

The released service takes one text a request, of any size, and has no limits; here everything is bounded. No torch here:
what rates is handed in. Needs the extra ``[serve]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, DataError
from creditflow.envs.http import BadRequestError, Batcher, application, json_response, read_json
from creditflow.train.annotate.base import AnnotationError
from creditflow.wrappers.records.trajectory import Turn

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Rater", "RewardLimits", "create_reward_app", "episodes_of", "texts_of"]

ReadT = TypeVar("ReadT")
TEXTS = ("observation", "action", "response")  # of a turn


class Rater(Protocol):
    """A model that rates steps. What it reads is prepared first, so that a bad text fails its own request alone."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Its "kind" ("paper" or "hazard"), "model" (digest) and "parameters": plain values."""
        ...

    def read_text(self, text: str) -> Any:
        """A text with placeholders, prepared.

        Raises:
            DataError: it has none, or is too long.
        """
        ...

    def read_turns(self, turns: Sequence[Turn]) -> Any:
        """An episode, prepared.

        Raises:
            DataError: a turn lacks its texts, or the episode is too long.
        """
        ...

    def hazards(self, read: Sequence[Any]) -> list[NDArray[np.float64]]:
        """h at every placeholder of every text."""
        ...

    def success(self, read: Sequence[Any]) -> list[NDArray[np.float64]]:
        """f(0), …, f(T) of every episode."""
        ...


@dataclass(frozen=True, slots=True)
class RewardLimits:
    """What one server takes.

    Attributes:
        body: bytes of a request.
        texts: texts or episodes in one request.
        text_chars: of one text, or of all texts of an episode together.
        turns: of an episode.
        pending: texts and episodes that wait or run, over all requests; more are answered 503.
        batch: rated in one go.
        seconds: from arrival to answer; then 504.
    """

    body: int = 8_000_000
    texts: int = 64
    text_chars: int = 400_000
    turns: int = 1_000
    pending: int = 256
    batch: int = 32
    seconds: float = 120.0

    def __post_init__(self) -> None:
        if min(self.body, self.texts, self.text_chars, self.turns, self.pending, self.batch) < 1 or self.seconds <= 0:
            raise ConfigError(f"every limit of a server must be positive, got {self}")


class _Asked(NamedTuple):
    kind: Literal["hazards", "success"]
    read: tuple[Any, ...]


def texts_of(body: Any, limits: RewardLimits) -> tuple[str, ...]:
    """The texts of a released request.

    Raises:
        BadRequestError: what is missing, of the wrong type or too much.
    """
    if not isinstance(body, dict):
        raise BadRequestError("model_attributes_type", ("body",), "the body must be a JSON object")
    texts = _list(body, "query", limits.texts)
    if not isinstance(body.get("prompts", []), list):
        raise BadRequestError("list_type", ("body", "prompts"), "'prompts' must be a list; it is not read")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadRequestError("string_type", ("body", "query", i), "a text is expected here")
        if len(text) > limits.text_chars:
            raise BadRequestError(
                "string_too_long", ("body", "query", i), f"a text has at most {limits.text_chars} characters"
            )
    return tuple(texts)


def episodes_of(body: Any, limits: RewardLimits) -> tuple[tuple[Turn, ...], ...]:
    """The episodes of a request, as turns that hold their texts.

    Raises:
        BadRequestError: what is missing, of the wrong type or too much.
    """
    if not isinstance(body, dict):
        raise BadRequestError("model_attributes_type", ("body",), "the body must be a JSON object")
    found = []
    for i, episode in enumerate(_list(body, "episodes", limits.texts)):
        loc = ("body", "episodes", i)
        turns = episode.get("turns") if isinstance(episode, dict) else None
        if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
            raise BadRequestError("list_type", loc, "an episode is an object with 'turns', a list of objects")
        if len(turns) > limits.turns:
            raise BadRequestError("too_long", loc, f"an episode has at most {limits.turns} turns")
        texts = [[turn.get(name, "") for name in TEXTS] for turn in turns]
        valid = [turn.get("valid", True) for turn in turns]
        if not all(isinstance(text, str) for own in texts for text in own) or not all(
            isinstance(v, bool) for v in valid
        ):
            raise BadRequestError(
                "string_type", loc, f"{', '.join(TEXTS)} of a turn are texts, 'valid' is true or false"
            )
        if sum(len(text) for own in texts for text in own) > limits.text_chars:
            raise BadRequestError("string_too_long", loc, f"an episode has at most {limits.text_chars} characters")
        found.append(
            tuple(
                Turn("", did, "", parsed=read, observation=saw, response=said)
                for (saw, did, said), read in zip(texts, valid, strict=True)
            )
        )
    return tuple(found)


def _list(body: Mapping[str, Any], key: str, most: int) -> list[Any]:
    if key not in body:
        raise BadRequestError("missing", ("body", key), f"'{key}' is required")
    if not isinstance(body[key], list):
        raise BadRequestError("list_type", ("body", key), f"'{key}' must be a list")
    if len(body[key]) > most:
        raise BadRequestError("too_long", ("body", key), f"'{key}' has at most {most} members")
    return list(body[key])


def create_reward_app(rater: Rater, *, limits: RewardLimits | None = None, hosts: Sequence[str] = ()) -> Starlette:
    """The server as an ASGI application.

    Args:
        rater: the model.
        limits: what it takes.
        hosts: names that it answers to besides this machine's own.

    Raises:
        MissingExtraError: starlette is not installed.
    """
    limits = limits or RewardLimits()
    about = dict(rater.about)

    def rate(batch: Sequence[_Asked]) -> list[list[list[float]] | Exception]:
        answers: list[list[list[float]]] = [[] for _ in batch]
        failed: dict[int, Exception] = {}
        for kind in ("hazards", "success"):
            places = [(i, read) for i, asked in enumerate(batch) if asked.kind == kind for read in asked.read]
            rated = rater.hazards if kind == "hazards" else rater.success
            numbers = rated([read for _, read in places]) if places else []
            for (i, _), own in zip(places, numbers, strict=True):
                try:
                    answers[i].append(_plain(own))
                except AnnotationError as error:
                    failed[i] = error
        return [failed.get(i, answer) for i, answer in enumerate(answers)]

    engine: Batcher[_Asked, list[list[float]]] = Batcher(rate, limits)

    async def prepared(read: Callable[[Any], ReadT], given: Sequence[Any], key: str) -> tuple[ReadT, ...]:
        def every() -> tuple[ReadT, ...]:
            done = []
            for i, one in enumerate(given):
                try:
                    done.append(read(one))
                except DataError as error:
                    raise BadRequestError("value_error", ("body", key, i), str(error)[:300]) from error
            return tuple(done)

        found: tuple[ReadT, ...] = await engine.call(every, len(given))
        return found

    async def get_reward(request: Request) -> Response:
        texts = texts_of(await read_json(request, limits.body), limits)
        if about["kind"] != "hazard":
            raise BadRequestError(
                "value_error", ("body",), "this model says success, not the first error: ask /success, or serve a model "
                "that was trained with loss.kind=hazard", 409,
            )  # fmt: skip
        read = await prepared(rater.read_text, texts, "query")
        rewards = await engine.submit(_Asked("hazards", read), len(read))
        return json_response({"rewards": rewards, "scores": rewards, "extra_logs": {"dummy_scores": rewards}})

    async def get_success(request: Request) -> Response:
        episodes = episodes_of(await read_json(request, limits.body), limits)
        read = await prepared(rater.read_turns, episodes, "episodes")
        found = await engine.submit(_Asked("success", read), len(read))
        return json_response({"success": found, "model": about["model"], "parameters": about["parameters"]})

    async def health(_: Request) -> Response:
        state = {"pending": engine.pending, "served": engine.served, "refused": engine.rejected}
        return json_response({"status": "ok", **about, **state})

    endpoints = [("POST", "/get_reward", get_reward), ("POST", "/success", get_success), ("GET", "/health", health)]
    return application(endpoints, engine, "reward", hosts=hosts)


def _plain(numbers: NDArray[np.float64]) -> list[float]:
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise AnnotationError(f"the model says {numbers[wrong[0]]} at place {wrong[0]}; are its weights damaged?")
    plain: list[float] = numbers.tolist()
    return plain
