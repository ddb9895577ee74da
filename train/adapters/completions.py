"""The completions that another trainer hands over for a batch, checked before any of them is played."""

from __future__ import annotations

from typing import Any

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["check_completions"]


def check_completions(completions: Any, count: int) -> None:
    """Require one text for each of ``count`` episodes.

    Raises:
        ConfigError: another number of completions, or one that is no text; names it.

    >>> check_completions(["left", "right"], 2)
    """
    if isinstance(completions, str) or len(completions) != count:
        found = short_repr(completions) if isinstance(completions, str) else str(len(completions))
        raise ConfigError(f"expected one completion for each of the {count} episodes, got {found}")
    for number, text in enumerate(completions):
        if not isinstance(text, str):
            raise ConfigError(f"completion {number} must be a text, got {short_repr(text)}")
