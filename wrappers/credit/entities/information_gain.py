"""StepSearch's information gain, redundancy and search-key score of a search, as functions of texts.

A retrieved passage matches a golden one by the cosine of their TF-IDF vectors. The vectors are fitted again for every
retrieved passage, on that passage and the golden ones, with the defaults of scikit-learn's vectoriser: words of two
letters or more, raw counts, idf = ln((1 + n) / (1 + df)) + 1, unit length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.sums import sum_in_order
from creditflow.envs.wikisearch.grading.scoring import normalize_answer, token_f1

__all__ = ["GoldenPassages", "information_gains", "redundancies", "rounded_f1", "search_key_score"]

_WORD: Final = re.compile(r"\b\w\w+\b")


class GoldenPassages:
    """The C golden passages of a question, prepared for comparison with retrieved ones.

    Args:
        texts: texts of the golden passages.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [_words(text) for text in texts]
        self._column = {word: i for i, word in enumerate(dict.fromkeys(word for count in counts for word in count))}
        self._count = np.zeros((len(texts), len(self._column)))
        for row, count in zip(self._count, counts, strict=True):
            row[[self._column[word] for word in count]] = list(count.values())
        self._seen_in = np.count_nonzero(self._count, axis=0)
        self._cache: dict[str, NDArray[np.float64]] = {}

    def __len__(self) -> int:
        return len(self._count)

    def match(self, text: str) -> NDArray[np.float64]:
        """float64 (C,), each in [0, 1]: the cosine of a retrieved passage with every golden one."""
        cosines = self._cache.get(text)
        if cosines is None:
            cosines = self._cache[text] = self._cosines(_words(text))
        return cosines

    def _cosines(self, words: Counter[str]) -> NDArray[np.float64]:
        known = np.zeros(len(self._column))
        unknown = 0  # sum of squared counts of words that occur in no golden passage
        for word, count in words.items():
            column = self._column.get(word)
            if column is None:
                unknown += count * count
            else:
                known[column] = count
        documents = 1.0 + len(self)
        idf = np.log((1.0 + documents) / (1.0 + self._seen_in + (known > 0.0))) + 1.0
        rare = np.log((1.0 + documents) / 2.0) + 1.0
        golden, query = self._count * idf, known * idf
        size = np.sqrt((golden**2).sum(axis=1) * (query @ query + unknown * rare**2))
        cosines: NDArray[np.float64] = np.divide(golden @ query, size, out=np.zeros(len(self)), where=size > 0.0)
        return cosines


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(normalize_answer(text)))


def information_gains(steps: Sequence[Sequence[str]], golden: GoldenPassages) -> NDArray[np.float64]:
    """G_t = 1/C Σ_c max(m_c^t − M_c^(t−1), 0), with m_c^t the best match of step t and M the best so far.

    Args:
        steps: texts that each of T steps retrieved.
        golden: C golden passages; without any, all gains are 0.

    Returns:
        float64 (T,), each in [0, 1]; they sum to the mean best match, at most 1.
    """
    if not len(golden):
        return np.zeros(len(steps))
    best = np.zeros(len(golden))
    gains = np.zeros(len(steps))
    for t, texts in enumerate(steps):
        improved = best
        for text in texts:
            improved = np.maximum(improved, golden.match(text))
        gains[t] = float((improved - best).mean())
        best = improved
    return gains


def redundancies(
    steps: Sequence[Sequence[str]], *, repeats: Literal["earlier", "anywhere"] = "earlier"
) -> NDArray[np.float64]:
    """P_t: the fraction of a step's passages that were retrieved before.

    Args:
        steps: ids of the passages of each of T steps.
        repeats: "earlier": in an earlier step; "anywhere": the second copy within one step counts too (released code).

    Returns:
        float64 (T,), each in [0, 1]; 0 for a step without passages.
    """
    seen: set[str] = set()
    fractions = np.zeros(len(steps))
    for t, names in enumerate(steps):
        repeated = sum(name in seen for name in names)
        if repeats == "anywhere":
            new = [name for name in names if name not in seen]
            repeated += len(new) - len(set(new))
        seen.update(names)
        fractions[t] = repeated / len(names) if names else 0.0
    return fractions


def rounded_f1(text: str, golden: Sequence[str]) -> float:
    """Best token F1, rounded to four decimals as in the released code."""
    return round(token_f1(text, golden), 4)


def search_key_score(
    queries: Sequence[str], keys: Sequence[Sequence[str]], *, pairing: Literal["best", "last"] = "best"
) -> float:
    """Return the mean over golden sub-questions of the token F1 of a query, in [0, 1]; 0 without sub-questions.

    Args:
        queries: queries of an episode, in order.
        keys: alternative search keys of each sub-question.
        pairing: "best": each sub-question counts its best query; "last" (released code): a query counts for the
            sub-question it matches best (the first of equals) and replaces an earlier query there, even with a lower
            F1, and F1 is rounded.
    """
    if not keys:
        return 0.0
    if pairing == "best":
        return sum_in_order(max((token_f1(query, key) for query in queries), default=0.0) for key in keys) / len(keys)
    scores = [0.0] * len(keys)
    for query in queries:
        matches = [rounded_f1(query, key) for key in keys]
        top = max(matches)
        if top > 0.0:
            scores[matches.index(top)] = top
    return sum_in_order(scores) / len(keys)
