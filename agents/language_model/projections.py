"""verl-agent's released projections from a completion to an action, including their quirks, and why a completion is invalid.

ALFWorld and WebShop take the last 30 or 20 characters when the tags are missing and never check whether the action
is admissible; Sokoban takes the first of up, down, left, right, still (in that order) that occurs anywhere inside
the tags; Search takes the first search or answer block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from creditflow.envs.errors import unknown_name_error

__all__ = ["PROJECTIONS", "SOKOBAN_WORDS", "verl_agent_projection"]

SOKOBAN_WORDS: Final = ("still", "up", "down", "left", "right")  # by the numbers of the released code
_ORDER: Final = ("up", "down", "left", "right", "still")  # the order in which the released code searches for them
_CJK: Final = re.compile("[\u4e00-\u9fff]")


def verl_agent_projection(env: str, response: str) -> tuple[str | int, bool]:
    """Parse the action as the released trainers do (Sokoban: 0 still, 1 up, 2 down, 3 left, 4 right), and its validity.

    Raises:
        ConfigError: there is no projection for this environment.
    """
    if env not in PROJECTIONS:
        raise unknown_name_error("verl_agent projection", env, PROJECTIONS)
    action, reason = PROJECTIONS[env](response)
    return action, not reason


def _between_tags(response: str) -> str | None:
    """The lower-cased text from the first opening to the first closing action tag; None if either is missing."""
    text = response.lower()
    start, end = text.find("<action>"), text.find("</action>")
    return None if start < 0 or end < 0 else text[start + len("<action>") : end].strip()


def _missing(response: str, inner: str | None) -> str:
    """Say which pair of tags is missing; "" if both are present."""
    if inner is None:
        return "there is no <action>…</action>"
    return "" if "<think>" in response and "</think>" in response else "there is no <think>…</think>"


def _command(response: str, tail: int) -> tuple[str, str]:
    inner = _between_tags(response)
    action = response.lower()[-tail:] if inner is None else inner
    return action, _missing(response, inner) or ("it has Chinese characters" if _CJK.search(response) else "")


def _direction(response: str) -> tuple[int, str]:
    inner = _between_tags(response)
    word = next((word for word in _ORDER if inner is not None and word in inner), "")
    reason = _missing(response, inner) or ("" if word else f"<action> has none of {', '.join(_ORDER)}")
    return (SOKOBAN_WORDS.index(word) if word else 0), reason


def _search(response: str) -> tuple[str, str]:
    text = response
    for closing in ("</search>", "</answer>"):
        if closing in text:
            text = text.partition(closing)[0] + closing
            break
    opened = sum(len(re.findall(f"<{tag}>", response, re.IGNORECASE)) for tag in ("search", "answer"))
    reason = "" if opened == 1 else f"there must be exactly one <search> or <answer> tag, but {opened} are opened"
    for tag in ("search", "answer"):
        match = re.search(f"<{tag}>(.*?)</{tag}>", text, re.IGNORECASE | re.DOTALL)
        if match:
            return f"<{tag}>{match[1].strip()}</{tag}>", reason
    return "", reason if opened > 1 else "there is no <search>…</search> and no <answer>…</answer>"


PROJECTIONS: Final[Mapping[str, Callable[[str], tuple[str | int, str]]]] = {
    "alfworld": lambda response: _command(response, 30),
    "webshop": lambda response: _command(response, 20),
    "sokoban": _direction,
    "search": _search,
}
