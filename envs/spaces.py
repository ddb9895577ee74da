"""The space of all strings, for text observations and actions, and what Gymnasium's wrappers and vectors do with it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from ctypes import c_char
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Space, utils
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from gymnasium.wrappers.utils import create_zero_array

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


# -- Gymnasium's wrappers: a text is flat already, and the empty one fills a stack of frames --------------------------
@utils.flatten_space.register(TextSpace)
def _flat_space(space: TextSpace) -> TextSpace:
    return space


@utils.flatten.register(TextSpace)
def _flat(_: TextSpace, x: str) -> str:  # type: ignore[misc]  # mypy takes the variable of spaces for one type
    return x


@utils.unflatten.register(TextSpace)
def _unflat(_: TextSpace, x: str) -> str:  # type: ignore[misc]  # mypy takes the variable of spaces for one type
    return x


@create_zero_array.register(TextSpace)
def _no_text(_: TextSpace) -> str:  # type: ignore[misc]  # mypy takes the variable of spaces for one type
    return ""


# -- shared memory of ``AsyncVectorEnv``: for each environment the number of bytes of its text, then the bytes -----------
SHARED_BYTES: Final = 2**18  # of one text
_LENGTH: Final = 4  # bytes of the number


class _SharedTexts(Sequence[str]):
    """The texts that environments wrote last. ``AsyncVectorEnv`` returns a copy of them, which is a tuple."""

    def __init__(self, memory: Any, n: int) -> None:
        self._memory, self._n = memory, n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index: Any) -> Any:
        return self._now()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return self._now()

    def _now(self) -> tuple[str, ...]:
        texts, whole = [], memoryview(self._memory).cast("B")
        for start in range(0, self._n * SHARED_BYTES, SHARED_BYTES):
            size = int.from_bytes(whole[start : start + _LENGTH], "little")
            texts.append(bytes(whole[start + _LENGTH : start + _LENGTH + size]).decode("utf-8", "surrogatepass"))
        return tuple(texts)


@create_shared_memory.register(TextSpace)
def _share(_: TextSpace, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.RawArray(c_char, n * SHARED_BYTES)


@read_from_shared_memory.register(TextSpace)
def _read_shared(_: TextSpace, shared_memory: Any, n: int = 1) -> _SharedTexts:
    return _SharedTexts(shared_memory, n)


@write_to_shared_memory.register(TextSpace)
def _write_shared(_: TextSpace, index: int, values: str, shared_memory: Any) -> None:
    data = values.encode("utf-8", "surrogatepass")
    if len(data) > SHARED_BYTES - _LENGTH:
        raise ConfigError(
            f"an observation of {len(data):,} bytes is too long for shared memory, which takes {SHARED_BYTES - _LENGTH:,}; pass "
            "vector_kwargs={'shared_memory': False}, or use creditflow.make_vec"
        )
    start = index * SHARED_BYTES
    memoryview(shared_memory).cast("B")[start : start + _LENGTH + len(data)] = (
        len(data).to_bytes(_LENGTH, "little") + data
    )
