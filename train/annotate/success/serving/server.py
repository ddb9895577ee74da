"""A success model behind HTTP: PiCA's released reward service, and our own exact one beside it.

``POST /get_reward``  {"query": [text, …], "prompts": []} → {"rewards": [[h, …] per text], "scores": the same, "extra_logs":
                      {"dummy_scores": the same}}; h, one for each placeholder in the text, is the probability that the
                      step which ends there is the first error. For models of hazards only.
``POST /success``     {"episodes": [{"turns": [{"observation", "action", "response", "valid"}, …]}, …]} → {"success":
                      [[f(0), …, f(T)] per episode], "model", "parameters"}: what ``annotate --with success:DIR`` writes, of any model.
``GET /health``       the model and the server's load

The released service takes one text per request and has no limits; here everything is bounded. This module needs no
torch, the model is an argument; it needs the extra ``[serve]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import DataError
from creditflow.envs.http import BadRequestError, Batcher, application, json_response, read_json
from creditflow.train.annotate.base import AnnotationError
from creditflow.train.annotate.success.serving.request_bodies import RewardLimits, episodes_of, texts_of
from creditflow.wrappers.records.trajectory import Turn

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Rater", "create_reward_app"]

EncodedT = TypeVar("EncodedT")


class Rater(Protocol):
    """A reward model behind the server.

    Inputs are validated and encoded first, so that a malformed one fails only its own request.
    """

    @property
    def about(self) -> Mapping[str, Any]:
        """Model metadata as JSON values: "kind" ("paper" or "hazard"), "model" (digest) and "parameters"."""
        ...

    def read_text(self, text: str) -> Any:
        """Encode a text with placeholders.

        Raises:
            DataError: it has none, or is too long.
        """
        ...

    def read_turns(self, turns: Sequence[Turn]) -> Any:
        """Encode an episode.

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


class _Job(NamedTuple):
    """The encoded inputs of one request."""

    kind: Literal["hazards", "success"]
    inputs: tuple[Any, ...]


def create_reward_app(rater: Rater, *, limits: RewardLimits | None = None, hosts: Sequence[str] = ()) -> Starlette:
    """The server as an ASGI application.

    Args:
        rater: the model.
        limits: limits on requests.
        hosts: host names that it answers to besides this machine's own.

    Raises:
        MissingExtraError: starlette is not installed.
    """
    limits = limits or RewardLimits()
    about = dict(rater.about)
    engine: Batcher[_Job, list[list[float]]] = Batcher(partial(_rate, rater), limits)

    async def get_reward(request: Request) -> Response:
        texts = texts_of(await read_json(request, limits.body), limits)
        if about["kind"] != "hazard":
            raise BadRequestError(
                "value_error", ("body",), "this model predicts success, not the first error: use /success, or serve a "
                "model that was trained with loss.kind=hazard", 409,
            )  # fmt: skip
        inputs = await _encode(engine, rater.read_text, texts, "query")
        rewards = await engine.submit(_Job("hazards", inputs), len(inputs))
        return json_response({"rewards": rewards, "scores": rewards, "extra_logs": {"dummy_scores": rewards}})

    async def get_success(request: Request) -> Response:
        episodes = episodes_of(await read_json(request, limits.body), limits)
        inputs = await _encode(engine, rater.read_turns, episodes, "episodes")
        success = await engine.submit(_Job("success", inputs), len(inputs))
        return json_response({"success": success, "model": about["model"], "parameters": about["parameters"]})

    async def health(_: Request) -> Response:
        return json_response({"status": "ok", **about, **engine.state()})

    endpoints = [("POST", "/get_reward", get_reward), ("POST", "/success", get_success), ("GET", "/health", health)]
    return application(endpoints, engine, "reward", hosts=hosts)


def _rate(rater: Rater, jobs: Sequence[_Job]) -> list[list[list[float]] | Exception]:
    """The numbers of every job, all inputs of a kind in one batch; an error fails its job alone."""
    answers: list[list[list[float]]] = [[] for _ in jobs]
    errors: dict[int, Exception] = {}
    for kind in ("hazards", "success"):
        inputs = [(i, item) for i, job in enumerate(jobs) if job.kind == kind for item in job.inputs]
        predict = rater.hazards if kind == "hazards" else rater.success
        predictions = predict([item for _, item in inputs]) if inputs else []
        for (i, _), numbers in zip(inputs, predictions, strict=True):
            try:
                answers[i].append(_finite(numbers))
            except AnnotationError as error:
                errors[i] = error
    return [errors.get(i, answer) for i, answer in enumerate(answers)]


async def _encode(
    engine: Batcher[_Job, list[list[float]]], encode: Callable[[Any], EncodedT], inputs: Sequence[Any], key: str
) -> tuple[EncodedT, ...]:
    """Encode the inputs of a request beside the event loop.

    Raises:
        BadRequestError: one cannot be encoded.
    """

    def encode_all() -> tuple[EncodedT, ...]:
        encoded = []
        for i, item in enumerate(inputs):
            try:
                encoded.append(encode(item))
            except DataError as error:
                raise BadRequestError("value_error", ("body", key, i), str(error)[:300]) from error
        return tuple(encoded)

    result: tuple[EncodedT, ...] = await engine.call(encode_all, len(inputs))
    return result


def _finite(numbers: NDArray[np.float64]) -> list[float]:
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise AnnotationError(
            f"the model predicts {numbers[wrong[0]]} at position {wrong[0]}; are its weights damaged?"
        )
    values: list[float] = numbers.tolist()
    return values
