"""BM25 over an inverted index in NumPy, with Lucene's English analysis and Lucene's arithmetic. Self-contained.

    score(q, d) = Σ_t count_q(t) · idf(t) · tf / (tf + k₁ · (1 − b + b · |d| / avgdl)),     k₁ = 0.9, b = 0.4
    idf(t) = ln(1 + (N − df + ½) / (df + ½))

A posting stores its finished float32 contribution, so a query is a few sliced additions. As in Lucene, |d| is what its
one-byte code remembers. Equal scores are ordered by document id; documents without a query term are not returned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["BM25", "analyse", "build_bm25", "stem"]

K1: Final = 0.9
B: Final = 0.4
BLOCK: Final = 20_000  # documents whose postings are counted at a time

_STOP: Final = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
STOP_WORDS: Final = frozenset(_STOP.split())
_IDEOGRAPH: Final = "\u3005-\u3007\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER: Final = rf"[^\W\d_{_IDEOGRAPH}][\u0300-\u036f]*"
# words after UAX #29: letters joined by . : ' · and numbers by . , ; ' stay together, an ideograph is a word
_ASCII: Final = re.compile(r"(?:[a-z]+(?:[.':][a-z]+)*|[0-9]+(?:[.,;'][0-9]+)*|_+(?=[a-z0-9])|(?<=[a-z0-9])_+)+")
_GENERAL: Final = re.compile(
    rf"(?:(?:{_LETTER})+(?:[.'’:·](?:{_LETTER})+)*|\d+(?:[.,;'’]\d+)*|_+(?=\w)|(?<=\w)_+)+|[{_IDEOGRAPH}]"
)
MAX_WORD: Final = 255


def words(text: str) -> list[str]:
    """The words of a text in lower case.

    >>> words("It's 3.5 oz., U.S.A. 1/2 (T-shirt)")
    ["it's", '3.5', 'oz', 'u.s.a', '1', '2', 't', 'shirt']
    """
    lower = text.lower()
    found = _ASCII.findall(lower) if lower.isascii() else _GENERAL.findall(lower)
    if len(text) > MAX_WORD and max(map(len, found), default=0) > MAX_WORD:
        return [word[i : i + MAX_WORD] for word in found for i in range(0, len(word), MAX_WORD)]
    return found


@lru_cache(maxsize=1 << 18)
def _term(word: str) -> str:
    """The index term of a word: without its possessive ending, stemmed; "" for a stop word."""
    if word.endswith(("'s", "’s")):
        word = word[:-2]
    return "" if word in STOP_WORDS else stem(word)


def analyse(text: str) -> list[str]:
    """The index terms of a text, in order, repeats kept.

    >>> analyse("The women's running shoes for the gym")
    ['women', 'run', 'shoe', 'gym']
    """
    return [term for term in map(_term, words(text)) if term]


# -- Porter's stemmer (M. F. Porter, 1980), with its author's two later corrections (-bli, -logi) ------------------------
_STEP2_TEXT: Final = (
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize "
    "ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log"
)
_STEP2: Final = dict(pair.split(":") for pair in _STEP2_TEXT.split())
_STEP3: Final = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP4_TEXT: Final = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"
_STEP4: Final = sorted(_STEP4_TEXT.split(), key=len, reverse=True)

_SHAPES: Final = str.maketrans({chr(code): "v" if chr(code) in "aeiou" else "c" for code in range(128)})


def _shape(word: str) -> str:
    """A "v" for each vowel, a "c" for each consonant; y after a consonant is a vowel."""
    if word.isascii() and "y" not in word:
        return word.translate(_SHAPES)
    shape = ""
    for char in word:
        shape += "v" if char in "aeiou" or (char == "y" and shape.endswith("c")) else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    return _shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _swap(word: str, table: Mapping[str, str]) -> str:
    """Replace the longest suffix of the table, if a measure stands before it."""
    if not word.endswith(tuple(table)):
        return word
    for length in range(7, 1, -1):
        new = table.get(word[-length:]) if len(word) >= length else None
        if new is not None:
            return word[:-length] + new if _measure(word[:-length]) > 0 else word
    return word


def _first_step(word: str) -> str:
    """Plurals, -ed, -ing, final y."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        word = word[:-1] if _measure(word[:-3]) > 0 else word
    else:
        root = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
        if "v" in _shape(root):
            word = _mended(root)
    return word[:-1] + "i" if word.endswith("y") and "v" in _shape(word[:-1]) else word


def _mended(root: str) -> str:
    """A root that lost -ed or -ing: an e comes back, or a doubled consonant goes."""
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if len(root) > 1 and root[-1] == root[-2] and _shape(root)[-1] == "c":
        return root if root[-1] in "lsz" else root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_short(root) else root


def _last_steps(word: str) -> str:
    """One long suffix, a final e, a doubled l."""
    for suffix in _STEP4:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            if suffix == "ion" and not root.endswith(("s", "t")):
                continue
            word = root if _measure(root) > 1 else word
            break
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def stem(word: str) -> str:
    """The stem of a lower-case word; words of one or two letters stay.

    >>> [stem(w) for w in ("relational", "possibly", "psychology", "hopping", "is")]
    ['relat', 'possibl', 'psycholog', 'hop', 'is']
    """
    if len(word) < 3:
        return word
    return _last_steps(_swap(_swap(_first_step(word), _STEP2), _STEP3))


# -- the index --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class BM25:
    """An immutable index; its arrays may be memory-mapped.

    Attributes:
        terms: term to term number.
        starts: int64 (terms + 1,): where each term's postings begin.
        rows: int32 (postings,): document numbers, ascending within a term.
        weights: float32 (postings,): what the term adds to the document's score.
        ranks: int32 (N,): place of the document's id among all ids in sorted order; breaks ties.
    """

    terms: Mapping[str, int]
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    ranks: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ranks)

    def search(self, query: str, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The best ``k`` documents.

        Returns:
            document numbers (n,) and scores (n,), best first; n ≤ k.
        """
        scores = np.zeros(len(self.ranks), np.float32)
        for term, count in Counter(analyse(query)).items():
            number = self.terms.get(term)
            if number is not None:
                first, last = self.starts[number], self.starts[number + 1]
                added = self.weights[first:last]
                scores[self.rows[first:last]] += added if count == 1 else added * np.float32(count)
        return self._best(scores, k)

    def _best(self, scores: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        found = np.flatnonzero(scores)
        if 0 < k < len(found):
            some = scores[found]
            found = found[some >= np.partition(some, len(some) - k)[len(some) - k]]
        order = np.lexsort((self.ranks[found], -scores[found]))[: max(k, 0)]
        found = found[order]
        return found, scores[found]


def _coded_length(length: NDArray[np.int64]) -> NDArray[np.float64]:
    """Lengths as Lucene's one-byte code keeps them: exact below 40, above that four significant bits of length − 24."""
    rest = np.maximum(length - 24, 1)
    shift = np.maximum(np.frexp(rest.astype(np.float64))[1] - 4, 0)
    return np.where(length < 40, length, 24 + ((rest >> shift) << shift)).astype(np.float64)


def build_bm25(documents: Iterable[str], ids: Sequence[str]) -> BM25:
    """Index documents in one pass over them.

    Args:
        documents: texts, as many as ``ids``.
        ids: unique; their order breaks ties.

    Raises:
        ValueError: the two differ in number.
    """
    counted = _Counted()
    for document in documents:
        counted.add(document)
    counted.flush()
    n = len(ids)
    if counted.documents != n:
        raise ValueError(f"{counted.documents} documents but {n} ids")
    term = np.concatenate([np.zeros(0, np.int32), *counted.terms])
    order = np.argsort(term, kind="stable")  # rows ascend within a term, because blocks do
    row = np.concatenate([np.zeros(0, np.int32), *counted.rows])[order]
    tf = np.concatenate([np.zeros(0, np.float32), *counted.counts])[order]
    df = np.bincount(term, minlength=len(counted.numbers))
    starts = np.zeros(len(df) + 1, np.int64)
    np.cumsum(df, out=starts[1:])
    lengths = np.array(counted.lengths, np.int64)
    average = np.float32(lengths.sum() / max(1, n))
    inverse = (1.0 / (K1 * ((1.0 - B) + B * _coded_length(lengths) / max(float(average), 1e-9)))).astype(np.float32)
    idf = np.log(1.0 + (n - df + 0.5) / (df + 0.5)).astype(np.float32)
    repeated = np.repeat(idf, df)
    weights = repeated - repeated / (np.float32(1.0) + tf * inverse[row])
    ranks = np.empty(n, np.int32)
    ranks[sorted(range(n), key=ids.__getitem__)] = np.arange(n, dtype=np.int32)
    return BM25(counted.numbers, starts, row, weights.astype(np.float32), ranks)


class _Counted:
    """Postings of the documents seen so far, counted in blocks."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.lengths: list[int] = []
        self.terms: list[NDArray[np.int32]] = []
        self.rows: list[NDArray[np.int32]] = []
        self.counts: list[NDArray[np.float32]] = []
        self._of_word: dict[str, int] = {}  # -1: a stop word
        self._flat: list[int] = []
        self._flushed = 0

    @property
    def documents(self) -> int:
        return len(self.lengths)

    def add(self, document: str) -> None:
        of_word, numbers = self._of_word, self.numbers
        before = len(self._flat)
        for word in words(document):
            number = of_word.get(word)
            if number is None:
                term = _term(word)
                number = of_word[word] = numbers.setdefault(term, len(numbers)) if term else -1
            if number >= 0:
                self._flat.append(number)
        self.lengths.append(len(self._flat) - before)
        if len(self.lengths) - self._flushed >= BLOCK:
            self.flush()

    def flush(self) -> None:
        lengths = np.array(self.lengths[self._flushed :], np.int64)
        rows = np.repeat(np.arange(self._flushed, self._flushed + len(lengths), dtype=np.int64), lengths)
        keys, counts = np.unique((np.array(self._flat, np.int64) << 32) | rows, return_counts=True)
        self.terms.append((keys >> 32).astype(np.int32))
        self.rows.append((keys & 0xFFFFFFFF).astype(np.int32))
        self.counts.append(counts.astype(np.float32))
        self._flat, self._flushed = [], len(self.lengths)
