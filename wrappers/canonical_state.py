"""``CanonicalState``: rewrite ``info["text_key"]`` by named rules, so that equivalent texts are equal.

The ``state_key`` is unchanged: comparing schemes under both keys shows what a canonicalisation loses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.errors import ConfigError, unknown_name_error

__all__ = ["RULES", "CanonicalState", "canonical_text"]

RULES: dict[str, Callable[[str], str]] = {
    "whitespace": lambda text: " ".join(text.split()),
    "casefold": str.casefold,
    "numbers": lambda text: re.sub(r"\d+", "#", text),
    "punctuation": lambda text: re.sub(r"[^\w\s]", "", text),
    "sorted_lines": lambda text: "\n".join(sorted(text.splitlines())),
}


def canonical_text(text: str, rules: Sequence[str]) -> str:
    r"""Apply the named rules to ``text``, in order.

    >>> canonical_text("Shelf 1\n  holds Mug 12", ["whitespace", "casefold", "numbers"])
    'shelf # holds mug #'

    Raises:
        ConfigError: a rule is not in ``RULES``.
    """
    for rule in rules:
        if rule not in RULES:
            raise unknown_name_error("canonicalisation rule", rule, RULES)
        text = RULES[rule](text)
    return text


class CanonicalState(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Set ``info["text_key"]`` to a canonical form of the observation or of the text key itself.

    Args:
        env: an environment with ``text_key`` in its info.
        rules: names in ``RULES``, applied in order.
        source: "observation" (must be a string) or "text_key".

    Raises:
        ConfigError: an unknown rule or source; at ``reset``, an observation that is not a string.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        rules: Sequence[str] = ("whitespace",),
        *,
        source: Literal["observation", "text_key"] = "observation",
    ) -> None:
        RecordConstructorArgs.__init__(self, rules=list(rules), source=source)
        gym.Wrapper.__init__(self, env)
        canonical_text("", rules)  # unknown rules fail here, not during an episode
        if source not in ("observation", "text_key"):
            raise unknown_name_error("source", str(source), ["observation", "text_key"])
        self._rules, self._source = tuple(rules), source

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, self.unmoved_info(obs, info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, self.unmoved_info(obs, info)

    def unmoved_info(self, obs: Any, info: dict[str, Any]) -> dict[str, Any]:
        """The info with the canonical text, which an action that was taken back has too."""
        text = obs if self._source == "observation" else info["text_key"]
        if not isinstance(text, str):
            raise ConfigError(
                f"CanonicalState needs observations that are strings, got {type(text).__name__}; use source='text_key'"
            )
        return {**info, "text_key": canonical_text(text, self._rules)}
