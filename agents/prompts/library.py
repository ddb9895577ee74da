"""The templates: ``think-v1`` and ``action-v1`` for instructed models, ``terse-v1`` and ``places-v1`` for small ones.

A small model trained from nothing has no use for words: it gets the observation alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from creditflow.agents.prompts.template import Prompt
from creditflow.envs.errors import unknown_name

__all__ = ["PROMPTS", "make_prompt"]

_THINK: Final = (
    "Reason first, inside <think> and </think>: what the situation is, what has been tried, what helps most now. Then "
    "give one action, copied from the list, inside <action> and </action>. Write nothing else."
)
_ACTION: Final = "Answer with one action, copied from the list, inside <action> and </action>. Write nothing else."
_FIRST: Final = "Your task: {task}\n\nWhat you see:\n{observation}\n\nPossible actions:\n{actions}\n\n"
_LATER: Final = "{refused}What you see after that:\n{observation}\n\nPossible actions:\n{actions}"
_WINDOWED: Final = (
    "Your task: {task}\n\nThis is step {step} of at most {steps}. What happened last:\n{history}\n\n"
    "{refused}What you see now:\n{observation}\n\nPossible actions:\n{actions}\n\n"
)
_TURN: Final = "[step {step}] seen: {observation}\n[step {step}] done: {action}"
_REFUSED: Final = "The last action was refused: {reason}\n\n"

PROMPTS: Final[Mapping[str, Prompt]] = {
    prompt.name: prompt
    for prompt in (
        Prompt("think-v1", "", _FIRST + _THINK, _LATER, _WINDOWED + _THINK, _TURN, _REFUSED),
        Prompt("action-v1", "", _FIRST + _ACTION, _LATER, _WINDOWED + _ACTION, _TURN, _REFUSED),
        Prompt("terse-v1", "", "{observation}", "{observation}", "{observation}"),
        Prompt("places-v1", "", "{cells}", "{cells}", "{cells}"),
    )
}


def make_prompt(name: str) -> Prompt:
    """A template by name.

    Raises:
        ConfigError: unknown; suggests the near one.
    """
    if name not in PROMPTS:
        raise unknown_name("prompt", name, PROMPTS)
    return PROMPTS[name]
