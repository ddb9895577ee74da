"""Request bodies of the reward server, read within limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from creditflow.envs.http import BadRequestError
from creditflow.envs.http.limits import require_positive
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["RewardLimits", "episodes_of", "texts_of"]

TEXTS: Final = ("observation", "action", "response")  # of a turn


@dataclass(frozen=True, slots=True)
class RewardLimits:
    """Limits of one server.

    Attributes:
        body: bytes of a request body.
        texts: texts or episodes in one request.
        text_chars: characters of one text, or of all texts of an episode together.
        turns: turns of an episode.
        pending: texts and episodes that wait or run, over all requests; beyond it requests are answered with 503.
        batch: texts or episodes per forward pass.
        seconds: time limit of a request; beyond it 504.
    """

    body: int = 8_000_000
    texts: int = 64
    text_chars: int = 400_000
    turns: int = 1_000
    pending: int = 256
    batch: int = 32
    seconds: float = 120.0

    def __post_init__(self) -> None:
        require_positive(self, "a server")


def texts_of(body: Any, limits: RewardLimits) -> tuple[str, ...]:
    """The texts of a request in the released format.

    Raises:
        BadRequestError: a field is missing, of the wrong type or beyond a limit.
    """
    if not isinstance(body, dict):
        raise BadRequestError("model_attributes_type", ("body",), "the body must be a JSON object")
    texts = _list(body, "query", limits.texts)
    if not isinstance(body.get("prompts", []), list):
        raise BadRequestError("list_type", ("body", "prompts"), "'prompts' must be a list; it is not read")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise BadRequestError("string_type", ("body", "query", i), "expected a string")
        if len(text) > limits.text_chars:
            raise BadRequestError(
                "string_too_long", ("body", "query", i), f"a text has at most {limits.text_chars} characters"
            )
    return tuple(texts)


def episodes_of(body: Any, limits: RewardLimits) -> tuple[tuple[Turn, ...], ...]:
    """The episodes of a request, as turns that hold their texts.

    Raises:
        BadRequestError: a field is missing, of the wrong type or beyond a limit.
    """
    if not isinstance(body, dict):
        raise BadRequestError("model_attributes_type", ("body",), "the body must be a JSON object")
    episodes = []
    for i, episode in enumerate(_list(body, "episodes", limits.texts)):
        loc = ("body", "episodes", i)
        turns = episode.get("turns") if isinstance(episode, dict) else None
        if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
            raise BadRequestError("list_type", loc, "an episode is an object with 'turns', a list of objects")
        if len(turns) > limits.turns:
            raise BadRequestError("too_long", loc, f"an episode has at most {limits.turns} turns")
        texts = [turn.get(name, "") for turn in turns for name in TEXTS]  # three for each turn
        valid = [turn.get("valid", True) for turn in turns]
        if {*map(type, texts)} - {str} or {*map(type, valid)} - {bool}:
            raise BadRequestError(
                "string_type", loc, f"{', '.join(TEXTS)} of a turn are strings, 'valid' is true or false"
            )
        if sum(map(len, texts)) > limits.text_chars:
            raise BadRequestError("string_too_long", loc, f"an episode has at most {limits.text_chars} characters")
        episodes.append(
            tuple(
                Turn("", action, "", parsed=parsed, observation=observation, response=response)
                for observation, action, response, parsed in zip(
                    texts[::3], texts[1::3], texts[2::3], valid, strict=True
                )
            )
        )
    return tuple(episodes)


def _list(body: Mapping[str, Any], key: str, max_members: int) -> list[Any]:
    if key not in body:
        raise BadRequestError("missing", ("body", key), f"'{key}' is required")
    if not isinstance(body[key], list):
        raise BadRequestError("list_type", ("body", key), f"'{key}' must be a list")
    if len(body[key]) > max_members:
        raise BadRequestError("too_long", ("body", key), f"'{key}' has at most {max_members} members")
    return list(body[key])
