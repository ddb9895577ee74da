"""What a prompt is: four short texts with named slots, filled from one view of an episode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

from creditflow.agents.base import View
from creditflow.agents.prompts.places import places
from creditflow.agents.prompts.tasks import task_text
from creditflow.envs.errors import ConfigError, unknown_name_error

__all__ = ["Prompt", "Slots", "slots_of"]


@dataclass(frozen=True, slots=True)
class Slots:
    """What a template may name, as texts.

    Attributes:
        task: what is to be done.
        step, steps: number of the coming turn, from 1; the environment's limit.
        history: the last k turns, windowed prompts only.
        observation: the present observation.
        cells: a grid observation as a list of places (see ``places``); the observation itself if it is no grid.
        actions: admissible actions, one a line.
        refused: why the last action was refused; "" if it was not.
        lessons: what an agent that tries again wrote down after earlier trials; "" at the first.
    """

    task: str
    step: str
    steps: str
    history: str
    observation: str
    cells: str
    actions: str
    refused: str
    lessons: str = ""


_NAMES: Final = tuple(field.name for field in fields(Slots))
_SLOT: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A versioned template. A change of wording is a new version: a test pins the texts of every one.

    Attributes:
        name: "<name>-v<k>".
        system: the system message; "" for none.
        first: the user message of the first turn.
        later: the user message of every later turn of an append-only history.
        windowed: the user message of every later turn when earlier turns are shown only by ``history``.
        turn: one past turn inside ``history``; slots ``step``, ``observation``, ``action``.
        refused: what ``{refused}`` becomes when the last action was refused; slot ``reason``.
    """

    name: str
    system: str
    first: str
    later: str
    windowed: str
    turn: str = ""
    refused: str = ""

    def __post_init__(self) -> None:
        allowed = {"turn": ("step", "observation", "action"), "refused": ("reason",)}
        for part in ("system", "first", "later", "windowed", "turn", "refused"):
            for slot in _SLOT.findall(getattr(self, part)):
                if slot not in allowed.get(part, _NAMES):
                    raise unknown_name_error(f"slot of {self.name}.{part}", slot, allowed.get(part, _NAMES))

    @property
    def lists_actions(self) -> bool:
        """Whether the agent is shown the admissible actions."""
        return any("{actions}" in part for part in (self.system, self.first, self.later, self.windowed))

    def fill(self, part: str, slots: Slots) -> str:
        """One part with its slots filled; slots' own braces are left alone."""
        return _substitute(getattr(self, part), {name: getattr(slots, name) for name in _NAMES})


def _substitute(text: str, values: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda found: values[found[1]], text)


def slots_of(prompt: Prompt, view: View, window: int = 0, lessons: str = "") -> Slots:
    """The slots of one view.

    Args:
        prompt: whose ``turn`` and ``refused`` texts are used.
        view: one running episode.
        window: how many past turns ``history`` shows.
        lessons: of earlier trials.

    Raises:
        ConfigError: the observation is not a text, or the prompt would list actions that give the solution away.
    """
    if view.env.actions_reveal_answer and prompt.lists_actions:
        raise ConfigError(
            f"the prompt {prompt.name!r} lists the admissible actions, and {view.env.env_name}'s list gives the answer "
            "away; set prompting.prompt to one that does not, such as 'search-v1', 'tools-v1' or 'react-search-v1'"
        )
    if not isinstance(view.observation, str):
        raise ConfigError(
            f"a language model reads text, but this environment's observations are {type(view.observation).__name__}; "
            "make it with a text observation mode"
        )
    turns = view.turns
    lines = [
        _substitute(
            prompt.turn,
            MappingProxyType({"step": str(i + 1), "observation": turns[i].observation, "action": turns[i].action}),
        )
        for i in range(max(0, len(turns) - window), len(turns))
    ]
    reason = turns[-1].invalid_reason if turns else ""
    return Slots(
        task=task_text(view),
        step=str(len(turns) + 1),
        steps=str(view.env.max_steps),
        history="\n".join(lines),
        observation=view.observation,
        cells=places(view.observation),
        actions="\n".join(view.info["admissible_actions"]),
        refused=_substitute(prompt.refused, {"reason": reason}) if reason else "",
        lessons=lessons,
    )
