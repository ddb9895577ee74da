"""``success:URL`` and ``pica-server:URL``: a success model that somebody serves.

``success:URL`` speaks to ``creditflow serve-reward`` and writes what ``success:DIR`` would, provenance included.
``pica-server:URL`` speaks PiCA's released dialect, to ours or to theirs: an episode goes out as one text, question first,
with a placeholder behind every turn of the agent; hazards come back, and f(t) = Π (1 − h) is written, f(0) = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.http.client import JsonClient
from creditflow.train.annotate.base import AnnotationError, Annotations, Provenance, boundaries
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.success.text import PLACEHOLDER, compact_text
from creditflow.train.rollout.replay import full_episode
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["PicaServerAnnotator", "RemoteSuccessAnnotator", "make", "make_success", "text_with_placeholders"]

NAME: Final = "value.pica"
CLIENT_DEFAULTS: Final[dict[str, Any]] = {"timeout": 30.0, "max_attempts": 4, "batch": 16}
ROUNDING_TOLERANCE: Final = 1e-6  # how far a served probability may lie outside [0, 1] by rounding


class RemoteSuccessAnnotator:
    """Writes ``value.pica`` and ``value.pica.next`` as our own server says them.

    Args:
        client: of the server.
        batch: episodes in a request.

    Raises:
        RetrievalError: the server is dead, slow or refuses.
        AnnotationError: it does not say which model it serves.
    """

    turn_names = (NAME, f"{NAME}.next")
    trajectory_names: tuple[str, ...] = ()
    token_names: tuple[str, ...] = ()

    def __init__(self, client: JsonClient, *, batch: int) -> None:
        self._client, self._batch = client, _at_least_one(batch)
        told = client.post("/success", {"episodes": []})
        if not isinstance(told, dict) or not isinstance(told.get("parameters"), dict) or not told.get("model"):
            raise AnnotationError(
                f"the server does not say what it serves; is it creditflow serve-reward? {short_repr(told, 80)}"
            )
        self._model, self._parameters = str(told["model"]), told["parameters"]
        self.provenance = Provenance("success", 1, self._parameters, self._model)

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            RetrievalError: the server is dead, slow or refuses.
            AnnotationError: a wrong count, no numbers, or the model was changed meanwhile.
        """
        notes = []
        members = [(group, i) for group in groups for i in range(len(group))]
        for start in range(0, len(members), self._batch):
            chosen = members[start : start + self._batch]
            episodes = [full_episode(group, i) if group.trajectories[i].turns else () for group, i in chosen]
            told = self._client.post("/success", {"episodes": [{"turns": list(map(_shown, e))} for e in episodes]})
            if not isinstance(told, dict) or (told.get("model"), told.get("parameters")) != (
                self._model,
                self._parameters,
            ):
                raise AnnotationError("the server serves another model than at the start: annotate the log anew")
            wanted = [len(turns) + 1 if turns else 0 for turns in episodes]
            found = _numbers(told.get("success"), wanted)
            for (group, i), success in zip(chosen, found, strict=True):
                own = len(group.trajectories[i].turns)
                notes.append(Annotations(boundaries(NAME, success[-own - 1 :] if own else np.zeros(1))))
        return notes


class PicaServerAnnotator:
    """Writes ``value.pica`` and ``value.pica.next`` from hazards that a server says in the released dialect.

    Args:
        client: of the server.
        model: how the server's model is named in the provenance; the dialect does not tell.
        placeholder: the server's.
        batch: texts in a request; the released client sends one.
    """

    turn_names = (NAME, f"{NAME}.next")
    trajectory_names: tuple[str, ...] = ()
    token_names: tuple[str, ...] = ()

    def __init__(self, client: JsonClient, *, model: str, placeholder: str, batch: int) -> None:
        if not placeholder:
            raise ConfigError("pica-server: placeholder must not be empty")
        self._client, self._placeholder, self._batch = client, placeholder, _at_least_one(batch)
        self.provenance = Provenance("pica-server", 1, {"placeholder": placeholder}, f"served:{model}")

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            RetrievalError: the server is dead, slow or refuses.
            AnnotationError: a log without texts, a text that holds the placeholder, a wrong count, no probabilities.
        """
        members = [(group, i) for group in groups for i in range(len(group)) if group.trajectories[i].turns]
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
            told = self._client.post("/get_reward", {"query": sent, "prompts": []})
            rewards = told.get("rewards") if isinstance(told, dict) else None
            hazards += _numbers(rewards, [text.count(self._placeholder) for text in sent])
        found = iter(hazards)
        notes = []
        for group in groups:
            for member in group.trajectories:
                own = len(member.turns)
                survive = np.concatenate([[1.0], np.cumprod(1.0 - next(found))]) if own else np.ones(1)
                notes.append(Annotations(boundaries(NAME, survive[-own - 1 :])))
        return notes


def text_with_placeholders(question: Any, turns: Sequence[Turn], placeholder: str, name: str) -> str:
    """An episode as the released service reads it: one text, a placeholder behind every turn's own words.

    On rollouts in the Search-R1 format without refused turns it is ``released_query`` to the letter; here the places are
    those of the turns, not found by looking for tags, so a refused turn has its own place and a quoted tag none.

    Args:
        question: of the task; None: the first observation.
        turns: from the first.
        placeholder: what marks a place.
        name: of the trajectory.

    Raises:
        AnnotationError: a turn without texts, or a text that holds the placeholder.
    """
    asked = question if isinstance(question, str) else turns[0].observation
    whole_text, cuts = asked, []
    for t, turn in enumerate(turns):
        said = turn.response or turn.action
        if (not said and turn.valid) or (t and not turn.observation):
            raise AnnotationError(f"trajectory {name!r}, turn {t} was recorded without texts; record the log with them")
        whole_text += (turn.observation if t else "") + said
        cuts.append(len(compact_text(whole_text)))
    if placeholder in whole_text:
        raise AnnotationError(
            f"trajectory {name!r} holds the placeholder {placeholder!r} in its own text: the server would count it"
        )
    text = compact_text(whole_text)
    pieces = [text[a:b] for a, b in zip([0, *cuts[:-1]], cuts, strict=True)]
    return f"{placeholder}\n".join(pieces) + placeholder


def _shown(turn: Turn) -> dict[str, Any]:
    return {"observation": turn.observation, "action": turn.action, "response": turn.response, "valid": turn.valid}


def _numbers(given: Any, wanted: Sequence[int]) -> list[NDArray[np.float64]]:
    """A list of probabilities for each text.

    Raises:
        AnnotationError: a wrong count, something that is no number, or no probability.
    """
    if not isinstance(given, list) or len(given) != len(wanted):
        raise AnnotationError(f"the server was sent {len(wanted)} texts and answered {short_repr(given, 80)}")
    out = []
    for place, (numbers, count) in enumerate(zip(given, wanted, strict=True)):
        if not isinstance(numbers, list) or len(numbers) != count:
            got = len(numbers) if isinstance(numbers, list) else repr(numbers)[:40]
            raise AnnotationError(f"the server owes {count} numbers for text {place} of the request, it sent {got}")
        if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in numbers):
            raise AnnotationError(
                f"the server's numbers for text {place} of the request are none: {short_repr(numbers, 80)}"
            )
        # a whole number may be too large for any float
        array = np.array([x if isinstance(x, float) or abs(x) <= 1 else np.inf for x in numbers], np.float64)
        if not ((array >= -ROUNDING_TOLERANCE) & (array <= 1.0 + ROUNDING_TOLERANCE)).all():  # NaN is neither
            raise AnnotationError(
                f"the server's numbers for text {place} are no probabilities: {short_repr(numbers, 80)}"
            )
        out.append(np.clip(array, 0.0, 1.0))
    return out


def _at_least_one(batch: int) -> int:
    if batch < 1:
        raise ConfigError(f"batch must be at least 1, got {batch}")
    return batch


def _client(url: str, settings: dict[str, Any]) -> JsonClient:
    base = url.rstrip("/").removesuffix("/get_reward")  # the released settings name the whole path
    return JsonClient([base], timeout=settings["timeout"], max_attempts=settings["max_attempts"])


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
