"""``success:URL`` and ``pica-server:URL``: a success model behind HTTP.

``success:URL`` uses ``creditflow serve-reward`` and writes the values of ``success:DIR``, provenance included.
``pica-server:URL`` uses the request format of PiCA's released service, which both servers accept: an episode is sent as
one text, question first, with a placeholder after every turn; the server returns hazards h, and f(t) = Π (1 − h) with
f(0) = 1 is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey
from creditflow.train.annotate.base import (
    AnnotationError,
    Annotations,
    Provenance,
    TurnAnnotator,
    boundaries,
    members_of,
)
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.success.serving.released_format import PLACEHOLDER, compact_text
from creditflow.train.rollout.replay import full_episode
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["PicaServerAnnotator", "RemoteSuccessAnnotator", "make", "make_success", "text_with_placeholders"]

NAME: Final = "value.pica"
CLIENT_DEFAULTS: Final[dict[str, Any]] = {"timeout": 30.0, "max_attempts": 4, "batch": 16, "key_variable": ""}
ROUNDING_TOLERANCE: Final = 1e-6  # of a served probability outside [0, 1]


class RemoteSuccessAnnotator(TurnAnnotator):
    """Writes ``value.pica`` and ``value.pica.next`` from ``creditflow serve-reward``.

    Args:
        client: client of the server.
        batch: episodes per request.

    Raises:
        ServiceError: the server cannot be reached in time, or rejects the request.
        AnnotationError: it does not report its model.
    """

    turn_names = (NAME, f"{NAME}.next")

    def __init__(self, client: JsonClient, *, batch: int) -> None:
        self._client, self._batch = client, _at_least_one(batch)
        reply = client.post("/success", {"episodes": []})
        if not isinstance(reply, dict) or not isinstance(reply.get("parameters"), dict) or not reply.get("model"):
            raise AnnotationError(
                f"the server does not report its model; is it creditflow serve-reward? {short_repr(reply, 80)}"
            )
        self._model, self._parameters = str(reply["model"]), reply["parameters"]
        self.provenance = Provenance("success", 1, self._parameters, self._model)

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            ServiceError: the server cannot be reached in time, or rejects the request.
            AnnotationError: a wrong number of values, values that are not probabilities, or the model changed meanwhile.
        """
        annotations = []
        members = members_of(groups)
        for start in range(0, len(members), self._batch):
            chosen = members[start : start + self._batch]
            episodes = [full_episode(group, i) if group.trajectories[i].turns else () for group, i in chosen]
            reply = self._client.post("/success", {"episodes": [{"turns": list(map(_turn_json, e))} for e in episodes]})
            if not isinstance(reply, dict) or (reply.get("model"), reply.get("parameters")) != (
                self._model,
                self._parameters,
            ):
                raise AnnotationError("the server serves another model than at the start: annotate the log again")
            counts = [len(turns) + 1 if turns else 0 for turns in episodes]
            values = _probabilities(reply.get("success"), counts)
            for (group, i), success in zip(chosen, values, strict=True):
                n_turns = len(group.trajectories[i].turns)
                annotations.append(Annotations(boundaries(NAME, success[-n_turns - 1 :] if n_turns else np.zeros(1))))
        return annotations


class PicaServerAnnotator(TurnAnnotator):
    """Writes ``value.pica`` and ``value.pica.next`` from the hazards of a server with the released request format.

    Args:
        client: client of the server.
        model: name of the server's model in the provenance; the server does not report it.
        placeholder: the server's placeholder.
        batch: texts per request; the released client sends one.
    """

    turn_names = (NAME, f"{NAME}.next")

    def __init__(self, client: JsonClient, *, model: str, placeholder: str, batch: int) -> None:
        if not placeholder:
            raise ConfigError("pica-server: placeholder must not be empty")
        self._client, self._placeholder, self._batch = client, placeholder, _at_least_one(batch)
        self.provenance = Provenance("pica-server", 1, {"placeholder": placeholder}, f"served:{model}")

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            ServiceError: the server cannot be reached in time, or rejects the request.
            AnnotationError: a log without texts, a text that contains the placeholder, a wrong number of values, or values
                that are not probabilities.
        """
        members = [(group, i) for group, i in members_of(groups) if group.trajectories[i].turns]
        texts = [
            text_with_placeholders(
                group.task.get("question"),
                full_episode(group, i),
                self._placeholder,
                group.trajectories[i].trajectory_id,
            )
            for group, i in members
        ]
        hazards: list[NDArray[np.float64]] = []
        for start in range(0, len(texts), self._batch):
            sent = texts[start : start + self._batch]
            reply = self._client.post("/get_reward", {"query": sent, "prompts": []})
            rewards = reply.get("rewards") if isinstance(reply, dict) else None
            hazards += _probabilities(rewards, [text.count(self._placeholder) for text in sent])
        remaining = iter(hazards)
        annotations = []
        for group in groups:
            for member in group.trajectories:
                n_turns = len(member.turns)
                survive = np.concatenate([[1.0], np.cumprod(1.0 - next(remaining))]) if n_turns else np.ones(1)
                annotations.append(Annotations(boundaries(NAME, survive[-n_turns - 1 :])))
        return annotations


def text_with_placeholders(question: Any, turns: Sequence[Turn], placeholder: str, name: str) -> str:
    """An episode in the format of the released service: one text with a placeholder after every completion.

    On rollouts in the Search-R1 format without invalid turns it equals ``released_query``. Here the placeholders come from
    the turns, not from a search for tags, so an invalid turn has one and a quoted tag has none.

    Args:
        question: question of the task; None takes the first observation.
        turns: the turns of the episode, from the first.
        placeholder: marks the end of a turn.
        name: trajectory id, for messages.

    Raises:
        AnnotationError: a turn without texts, or a text that contains the placeholder.
    """
    first = question if isinstance(question, str) else turns[0].observation
    text, ends = first, []
    for t, turn in enumerate(turns):
        completion = turn.response or turn.action
        if (not completion and turn.valid) or (t and not turn.observation):
            raise AnnotationError(f"trajectory {name!r}, turn {t} was recorded without texts; record the log with them")
        text += (turn.observation if t else "") + completion
        ends.append(len(compact_text(text)))
    if placeholder in text:
        raise AnnotationError(
            f"trajectory {name!r} contains the placeholder {placeholder!r} in its own text: the server would count it"
        )
    text = compact_text(text)
    pieces = [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return f"{placeholder}\n".join(pieces) + placeholder


def _turn_json(turn: Turn) -> dict[str, Any]:
    return {"observation": turn.observation, "action": turn.action, "response": turn.response, "valid": turn.valid}


def _probabilities(reply: Any, counts: Sequence[int]) -> list[NDArray[np.float64]]:
    """The probabilities of every text of a request.

    Raises:
        AnnotationError: a wrong number of values, or values that are not probabilities.
    """
    if not isinstance(reply, list) or len(reply) != len(counts):
        raise AnnotationError(
            f"expected the values of {len(counts)} texts from the server, got {short_repr(reply, 80)}"
        )
    out = []
    for i, (values, count) in enumerate(zip(reply, counts, strict=True)):
        if not isinstance(values, list) or len(values) != count:
            got = len(values) if isinstance(values, list) else repr(values)[:40]
            raise AnnotationError(f"expected {count} values for text {i} of the request from the server, got {got}")
        if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in values):
            raise AnnotationError(f"the server's values for text {i} are not numbers: {short_repr(values, 80)}")
        # an integer may be too large for a float
        array = np.array([x if isinstance(x, float) or abs(x) <= 1 else np.inf for x in values], np.float64)
        if not ((array >= -ROUNDING_TOLERANCE) & (array <= 1.0 + ROUNDING_TOLERANCE)).all():  # False for NaN
            raise AnnotationError(f"the server's values for text {i} are not probabilities: {short_repr(values, 80)}")
        out.append(np.clip(array, 0.0, 1.0))
    return out


def _at_least_one(batch: int) -> int:
    if batch < 1:
        raise ConfigError(f"batch must be at least 1, got {batch}")
    return batch


def _client(url: str, settings: dict[str, Any]) -> JsonClient:
    base = url.rstrip("/").removesuffix("/get_reward")  # the released settings name the whole path
    key = ApiKey.named(settings["key_variable"])
    return JsonClient([base], timeout=settings["timeout"], max_attempts=settings["max_attempts"], key=key)


def make_success(argument: str, context: Context) -> RemoteSuccessAnnotator:
    """The annotator ``success:URL``."""
    settings = settings_of("success", context, CLIENT_DEFAULTS)
    return RemoteSuccessAnnotator(_client(argument, settings), batch=settings["batch"])


def make(argument: str, context: Context) -> PicaServerAnnotator:
    """The annotator ``pica-server:URL``."""
    settings = settings_of("pica-server", context, CLIENT_DEFAULTS | {"model": "unnamed", "placeholder": PLACEHOLDER})
    return PicaServerAnnotator(
        _client(argument, settings),
        model=settings["model"],
        placeholder=settings["placeholder"],
        batch=settings["batch"],
    )
