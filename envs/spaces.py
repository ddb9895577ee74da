"""The space of all strings, for text observations and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from creditflow.envs.errors import ConfigError, short_repr

__all__ = ["TextSpace"]


class TextSpace(Space[str]):
    r"""All strings, newlines and any Unicode included.

    ``gymnasium.spaces.Text`` has a closed character set: it warns on newlines, breaks ``AsyncVectorEnv`` and costs
    milliseconds per check. Here membership is one ``isinstance``.

    Args:
        samples: texts from which ``sample()`` chooses uniformly, for random agents. Default: the empty string.
        seed: seed of ``sample()``, as in every Gymnasium space.

    >>> "two\nlines" in TextSpace()
    True
    """

    def __init__(self, samples: Sequence[str] = ("",), seed: int | np.random.Generator | None = None) -> None:
        if not samples or not all(isinstance(text, str) for text in samples):
            raise ConfigError(f"TextSpace samples must be a non-empty sequence of strings, got {short_repr(samples)}")
        self.samples = tuple(samples)
        super().__init__(shape=None, dtype=None, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed-size vector."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Return one of ``samples``, uniformly. Masks are not supported."""
        if mask is not None or probability is not None:
            raise ConfigError("TextSpace.sample takes no mask or probability")
        return self.samples[int(self.np_random.integers(len(self.samples)))]

    def contains(self, x: Any) -> bool:
        """Return whether ``x`` is a string."""
        return isinstance(x, str)

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Return the strings unchanged."""
        return list(sample_n)

    def from_jsonable(self, sample_n: Sequence[Any]) -> list[str]:
        """Return the strings unchanged."""
        return [str(text) for text in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.samples == other.samples

    def __hash__(self) -> int:
        return hash((TextSpace, self.samples))

    def __repr__(self) -> str:
        return f"TextSpace({list(self.samples)!r})" if self.samples != ("",) else "TextSpace()"
