"""A word n-gram language model as an agent: the language model of a credit set that is built without torch.

It writes actions word by word. Words are sampled from a back-off trigram model (Witten and Bell 1991) of actions that a noisy
expert took on training tasks, or from a cache model (Kuhn and De Mori 1990): the bigrams of the possible actions, or of the
observation where actions are not listed. Like larger language models it copies names from the prompt, repeats itself,
misjudges the state, and sometimes writes an action that is rejected. ``--agent hf:PATH`` replaces it by a neural model.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from creditflow.agents.base import Decision, View
from creditflow.wrappers.records.group import Group

__all__ = ["NgramAgent"]

ORDER: Final = 3
CACHE_WEIGHT: Final = 0.9  # probability that an action begins with the cache model, if actions are listed
SWITCH: Final = 0.02  # probability that the next word is sampled from the other model
MAX_WORDS: Final = 40  # per action
START: Final = "\n"  # before and after every action; in a text, the end of a line
_WORD: Final = re.compile(r"\n|[^\S\n]*(?:\w+|[^\w\s])")  # a word with the space before it


class _Counts:
    """How often each word followed a context.

    Args:
        escapes: whether to back off from a known context too, with the Witten–Bell probability types / (types + tokens).
    """

    def __init__(self, *, escapes: bool) -> None:
        self._escapes = escapes
        self._next: dict[tuple[str, ...], Counter[str]] = {}
        self._tables: dict[tuple[str, ...], tuple[list[str], list[int]]] = {}

    def add(self, words: Sequence[str], order: int, *, begin: int = 0) -> None:
        """Count all contexts of fewer than ``order`` words before each word from index ``begin`` on."""
        for i in range(begin, len(words)):
            for length in range(min(order, i + 1)):
                self._next.setdefault(tuple(words[i - length : i]), Counter())[words[i]] += 1
        self._tables.clear()

    def table(self, context: tuple[str, ...]) -> tuple[list[str], list[int]]:
        """Words after a context, sorted, and their cumulative counts; empty for an unknown context."""
        table = self._tables.get(context)
        if table is None:
            counts = self._next.get(context) or Counter[str]()
            words = sorted(counts)
            table = self._tables[context] = words, list(accumulate(counts[word] for word in words))
        return table

    def sample(self, context: tuple[str, ...], rng: np.random.Generator) -> str:
        """Sample the next word; backs off to shorter contexts."""
        words, cumulative = self.table(context)
        total = cumulative[-1] if words else 0
        if context and (not words or (self._escapes and rng.random() * (total + len(words)) >= total)):
            return self.sample(context[1:], rng)
        return words[bisect_right(cumulative, rng.random() * total)] if words else START


class NgramAgent:
    """Writes actions by a trigram model with a cache.

    Args:
        groups: rollouts on whose valid actions it is trained.
    """

    name = "ngram"

    def __init__(self, groups: Iterable[Group]) -> None:
        self._model = _Counts(escapes=True)
        for group in groups:
            for trajectory in group.trajectories:
                last: list[str] = []
                for turn in trajectory.turns:
                    if turn.valid:
                        words = _words(turn.action)
                        context = [*last[-1:], START]
                        self._model.add([*context, *words, START], ORDER, begin=len(context))
                        last = words

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Write one action per view, from the observation and, where prompts list them, the admissible actions."""
        return [Decision(self._write(view)) for view in views]

    def _write(self, view: View) -> str:
        listed = () if view.env.actions_reveal_answer else view.info["admissible_actions"]
        cache = _Counts(escapes=False)
        cache.add(_words("\n".join(["", *(listed or [str(view.observation)]), ""])), 2)
        words = [*(_words(view.turns[-1].action)[-1:] if view.turns else []), START]
        begin = len(words)
        copies = bool(listed) and view.rng.random() < CACHE_WEIGHT
        while len(words) < begin + MAX_WORDS:
            source, order = (cache, 2) if copies else (self._model, ORDER)
            word = source.sample(tuple(words[1 - order :]), view.rng)
            if word == START and len(words) > begin:
                break
            if word != START:
                words.append(word)
            copies ^= view.rng.random() < SWITCH
        return "".join(words[begin:])


def _words(text: str) -> list[str]:
    return _WORD.findall(text)
