"""Action vocabularies: four pushes (all that play needs), or gym-sokoban's nine; as texts or as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium.spaces import Discrete, Space

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.spaces import TextSpace

__all__ = ["ACTION_MODES", "Vocabulary", "make_parser", "make_vocabulary"]

ACTION_MODES: Final = ("text", "discrete")
_DIRECTIONS: Final = ("up", "down", "left", "right")


class Vocabulary(NamedTuple):
    """The actions of an environment.

    Attributes:
        texts: by action number.
        moves: by action number: (index of the direction, -1 for no operation; whether it pushes).
    """

    texts: tuple[str, ...]
    moves: tuple[tuple[int, bool], ...]

    def named(self) -> Mapping[tuple[int, str], str]:
        """Texts by (direction, "push" or "move")."""
        return {
            (direction, "push" if push else "move"): text
            for text, (direction, push) in zip(self.texts, self.moves, strict=True)
            if direction >= 0
        }


def make_vocabulary(n_actions: int) -> Vocabulary:
    """Four: up, down, left, right (each pushes). Nine, as in gym-sokoban: no operation, four pushes, four mere moves.

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


def make_parser(action_mode: str, vocabulary: Vocabulary) -> tuple[Space[Any], Callable[[Any], tuple[int | None, str]]]:
    """The action space, and the strict parser: action -> (number or None, reason).

    A text counts if, stripped and without regard to case, it is exactly an action; nothing is searched for inside it.

    Raises:
        ConfigError: unknown mode; suggests the near one.
    """
    texts = vocabulary.texts
    numbers: dict[str, int] = {text: number for number, text in enumerate(texts)}
    expected = f"expected exactly one of: {', '.join(texts)}"
    longest = 4 * max(map(len, texts))

    def parse_text(action: Any) -> tuple[int | None, str]:
        if not isinstance(action, str):
            return None, f"an action is a text, got {type(action).__name__}; {expected}"
        number = numbers.get(action)
        if number is None and len(action) <= longest:
            number = numbers.get(action.strip().casefold())
        if number is not None:
            return number, ""
        return None, f"{_shown(action)} is not an action; {expected}"

    def parse_number(action: Any) -> tuple[int | None, str]:
        if not isinstance(action, (bool, np.bool_)):
            try:
                number = index(action)
            except TypeError:
                number = -1
            if 0 <= number < len(texts):
                return number, ""
        return None, f"expected an integer from 0 to {len(texts) - 1}, got {_shown(action)}"

    if action_mode == "text":
        return TextSpace(texts), parse_text
    if action_mode == "discrete":
        return Discrete(len(texts)), parse_number
    raise unknown_name_error("action_mode", str(action_mode), ACTION_MODES)


def _shown(action: Any) -> str:
    """A few ASCII characters for a message: actions come from language models, and may be huge or hostile."""
    if isinstance(action, str):
        return "an empty text" if not action[:200].strip() else ascii(action[:30])[:50] + "…" * (len(action) > 30)
    if isinstance(action, (bool, float)) or (isinstance(action, int) and action.bit_length() < 64):
        return repr(action)
    return f"a value of type {type(action).__name__}"
