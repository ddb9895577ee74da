"""What a search adds: StepSearch's information gain, redundancy and search-key score, as functions of texts.

A retrieved passage matches a golden one by the cosine of their TF-IDF vectors. The vectors are fitted anew for every
retrieved passage, on that passage and the golden ones, with the weights that scikit-learn's vectoriser has by default:
words of two letters or more, raw counts, idf = ln((1 + n) / (1 + df)) + 1, unit length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.wikisearch.grading.scoring import normalize_answer, token_f1

__all__ = ["GoldenPassages", "information_gains", "redundancies", "rounded_f1", "search_key_score"]

_WORD: Final = re.compile(r"\b\w\w+\b")


class GoldenPassages:
    """The C passages that support an answer, ready to be compared with retrieved ones.

    Args:
        texts: of the golden passages.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [_words(text) for text in texts]
        self._column = {word: i for i, word in enumerate(dict.fromkeys(word for count in counts for word in count))}
        self._count = np.zeros((len(texts), len(self._column)))
        for row, count in zip(self._count, counts, strict=True):
            row[[self._column[word] for word in count]] = list(count.values())
        self._seen_in = np.count_nonzero(self._count, axis=0)
        self._known: dict[str, NDArray[np.float64]] = {}

    def __len__(self) -> int:
        return len(self._count)

    def match(self, text: str) -> NDArray[np.float64]:
        """float64 (C,), each in [0, 1]: the cosine of a retrieved passage with every golden one."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._cosines(_words(text))
        return found

    def _cosines(self, words: Counter[str]) -> NDArray[np.float64]:
        here = np.zeros(len(self._column))
        elsewhere = 0  # squared counts of words that no golden passage has
        for word, count in words.items():
            column = self._column.get(word)
            if column is None:
                elsewhere += count * count
            else:
                here[column] = count
        documents = 1.0 + len(self)
        idf = np.log((1.0 + documents) / (1.0 + self._seen_in + (here > 0.0))) + 1.0
        rare = np.log((1.0 + documents) / 2.0) + 1.0
        golden, query = self._count * idf, here * idf
        size = np.sqrt((golden**2).sum(axis=1) * (query @ query + elsewhere * rare**2))
        cosines: NDArray[np.float64] = np.divide(golden @ query, size, out=np.zeros(len(self)), where=size > 0.0)
        return cosines


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(normalize_answer(text)))


def information_gains(steps: Sequence[Sequence[str]], golden: GoldenPassages) -> NDArray[np.float64]:
    """G_t = 1/C Σ_c max(m_c^t − M_c^(t−1), 0), with m_c^t the best match of step t and M the best so far.

    Args:
        steps: the texts that each of T steps retrieved.
        golden: C golden passages; nothing is gained where there are none.

    Returns:
        float64 (T,), each in [0, 1]; they sum to the mean best match, at most 1.
    """
    if not len(golden):
        return np.zeros(len(steps))
    best = np.zeros(len(golden))
    gains = np.zeros(len(steps))
    for t, texts in enumerate(steps):
        now = best
        for text in texts:
            now = np.maximum(now, golden.match(text))
        gains[t] = float((now - best).mean())
        best = now
    return gains


def redundancies(
    steps: Sequence[Sequence[str]], *, repeats: Literal["earlier", "anywhere"] = "earlier"
) -> NDArray[np.float64]:
    """P_t: the share of a step's passages that were retrieved before.

    Args:
        steps: what names the passages of each of T steps.
        repeats: "earlier": in an earlier step; "anywhere": the second copy within one step counts too (released code).

    Returns:
        float64 (T,), each in [0, 1]; 0 for a step without passages.
    """
    seen: set[str] = set()
    shares = np.zeros(len(steps))
    for t, names in enumerate(steps):
        again = sum(name in seen for name in names)
        if repeats == "anywhere":
            fresh = [name for name in names if name not in seen]
            again += len(fresh) - len(set(fresh))
        seen.update(names)
        shares[t] = again / len(names) if names else 0.0
    return shares


def rounded_f1(text: str, golden: Sequence[str]) -> float:
    """Best token F1 as the released code has it: rounded to four decimals."""
    return round(token_f1(text, golden), 4)


def search_key_score(
    queries: Sequence[str], keys: Sequence[Sequence[str]], *, pairing: Literal["best", "last"] = "best"
) -> float:
    """How well the queries cover the golden sub-questions, in [0, 1].

    Args:
        queries: of a trajectory, in order.
        keys: for each sub-question, ways to search for it.
        pairing: "best": each sub-question counts its best query; "last" (released code): a query counts for the one
            sub-question it matches best, the first of equals, a later query of the same one replaces it, even by less,
            and F1 is rounded.
    """
    if not keys:
        return 0.0
    if pairing == "best":
        return sum(max((token_f1(query, key) for query in queries), default=0.0) for key in keys) / len(keys)
    held = [0.0] * len(keys)
    for query in queries:
        scores = [rounded_f1(query, key) for key in keys]
        top = max(scores)
        if top > 0.0:
            held[scores.index(top)] = top
    return sum(held) / len(keys)
