"""Action vocabularies: the four directions, or gym-sokoban's nine actions; as texts or as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete, Space

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.spaces import TextSpace

__all__ = ["ACTION_MODES", "Vocabulary", "make_parser", "make_vocabulary", "quoted_action"]

ACTION_MODES: Final = ("text", "discrete")
_DIRECTIONS: Final = ("up", "down", "left", "right")


class Vocabulary(NamedTuple):
    """The actions of an environment.

    Attributes:
        texts: text of each action number.
        moves: (direction index, -1 for no operation; whether it may push) of each action number.
    """

    texts: tuple[str, ...]
    moves: tuple[tuple[int, bool], ...]

    def named(self) -> Mapping[tuple[int, str], str]:
        """Return the texts by (direction, "push" or "move"), and no operation by (-1, "none")."""
        named = {}
        for text, (direction, push) in zip(self.texts, self.moves, strict=True):
            without_push = "move" if direction >= 0 else "none"
            named[direction, "push" if push else without_push] = text
        return named


def make_vocabulary(n_actions: int) -> Vocabulary:
    """Make a vocabulary of 4 actions (up, down, left, right, which may push) or gym-sokoban's 9 (none, 4 pushes, 4 moves).

    Raises:
        ConfigError: another number.
    """
    pushes = tuple((direction, True) for direction in range(4))
    if n_actions == 4:
        return Vocabulary(_DIRECTIONS, pushes)
    if n_actions == 9:
        texts = ("no operation", *(f"push {d}" for d in _DIRECTIONS), *(f"move {d}" for d in _DIRECTIONS))
        return Vocabulary(texts, ((-1, False), *pushes, *((direction, False) for direction in range(4))))
    raise ConfigError(f"n_actions must be 4 or 9, got {short_repr(n_actions)}")


def make_parser(action_mode: str, vocabulary: Vocabulary) -> tuple[Space[Any], Callable[[Any], tuple[Any, str]]]:
    """Return the action space, and the strict parser: action -> (number or None, reason).

    A text is valid if it equals an action up to case and surrounding white space; longer texts are not searched.

    Raises:
        ConfigError: unknown mode; suggests the nearest one.
    """
    texts = vocabulary.texts
    numbers: dict[str, int] = {text: number for number, text in enumerate(texts)}
    expected = f"expected exactly one of: {', '.join(texts)}"
    max_characters = 4 * max(map(len, texts))

    def parse_text(action: Any) -> tuple[int | None, str]:
        if not isinstance(action, str):
            return None, f"an action is a string, got {type(action).__name__}; {expected}"
        number = numbers.get(action)
        if number is None and len(action) <= max_characters:
            number = numbers.get(action.strip().casefold())
        if number is not None:
            return number, ""
        return None, f"{quoted_action(action)} is not an action; {expected}"

    def parse_number(action: Any) -> tuple[int | None, str]:
        if not isinstance(action, (bool, np.bool_)):
            try:
                number = index(action)
            except TypeError:
                number = -1
            if 0 <= number < len(texts):
                return number, ""
        return None, f"expected an integer from 0 to {len(texts) - 1}, got {quoted_action(action)}"

    if action_mode == "text":
        return TextSpace(texts), parse_text
    if action_mode == "discrete":
        return Discrete(len(texts)), parse_number
    raise unknown_name_error("action_mode", str(action_mode), ACTION_MODES)


def quoted_action(action: Any) -> str:
    """Return a short ASCII form for a message: actions come from language models, and may be huge or hostile."""
    if isinstance(action, np.generic):  # a vector environment's actions: equal numbers have equal messages
        action = action.item()
    if isinstance(action, str):
        return "an empty string" if not action[:200].strip() else ascii(action[:30])[:50] + "…" * (len(action) > 30)
    if isinstance(action, (bool, float)) or (isinstance(action, int) and action.bit_length() < 64):
        return repr(action)
    return f"a value of type {type(action).__name__}"
