"""Answer metrics: normalisation, exact match, substring match, token F1.

The normalisation is the one that all open-domain question sets share, in its published order: lower case, ASCII punctuation
deleted, articles dropped, spaces collapsed. Curly quotes and dashes are not ASCII and stay. Of a golden answer such as "A" or
"!!!" nothing would be left, and every prediction would contain it; such an answer is compared as it is written.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from creditflow.envs.errors import check_name

__all__ = [
    "METRICS",
    "Judge",
    "exact_match",
    "metric",
    "normalises_to_nothing",
    "normalize_answer",
    "pica_f1",
    "set_f1",
    "sub_match",
    "token_f1",
]

Judge = Callable[[str, Sequence[str], str], float]  # question, golden answers, answer -> score in [0, 1]
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """The normalised form in which answers are compared.

    >>> normalize_answer("The  U.S.A.'s end")
    'usas end'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def normalises_to_nothing(answer: str) -> bool:
    """Whether an answer that has text has none once it is normalised.

    >>> [normalises_to_nothing(answer) for answer in ("A", "!!!", "The The", "The Who", "")]
    [True, True, True, False, False]
    """
    return bool(answer.strip()) and not normalize_answer(answer)


def _compared(prediction: str, answer: str) -> tuple[str, str]:
    """The forms in which a prediction and a golden answer are compared."""
    if normalises_to_nothing(answer):
        return " ".join(prediction.split()), " ".join(answer.split())
    return normalize_answer(prediction), normalize_answer(answer)


def exact_match(prediction: str, golden: Iterable[str]) -> float:
    """1.0 if the prediction equals a golden answer once both are normalised, else 0.0."""
    pairs = (_compared(prediction, answer) for answer in golden)
    return float(any(predicted == expected for predicted, expected in pairs))


def sub_match(prediction: str, golden: Iterable[str]) -> float:
    """1.0 if a golden answer occurs inside the prediction, else 0.0. An empty golden answer occurs in an empty one only.

    An answer that is compared as it is written occurs as whole words: "A" in "option A", and not in "an Apple".
    """
    return float(any(_occurs(prediction, answer) for answer in golden))


def _occurs(prediction: str, answer: str) -> bool:
    predicted, expected = _compared(prediction, answer)
    if normalises_to_nothing(answer):
        begin, end = (r"\b" if edge.isalnum() else "" for edge in (expected[0], expected[-1]))
        return re.search(begin + re.escape(expected) + end, predicted) is not None
    return expected in predicted if expected else not predicted


def token_f1(prediction: str, golden: Iterable[str]) -> float:
    """Best F1 over the golden answers, of the *multisets* of tokens (SQuAD's rule). 0.0 without a common token.

    >>> token_f1("Walla Walla Washington", ["Walla Walla"])
    0.8
    """
    return max((_multiset_f1(prediction, answer) for answer in golden), default=0.0)


def _multiset_f1(prediction: str, answer: str) -> float:
    predicted, golden_tokens = (text.split() for text in _compared(prediction, answer))
    common = (Counter(predicted) & Counter(golden_tokens)).total()
    return 2.0 * common / (len(predicted) + len(golden_tokens)) if common else 0.0


def pica_f1(prediction: str, golden: Iterable[str]) -> float:
    """PiCA's eqs. 16 and 17: F1 of token *sets*, 2 |T ∩ T*| / (|T| + |T*|), the best over the golden answers.

    >>> pica_f1("Duran Duran", ["Duran Duran"])
    1.0
    """
    scores = []
    for answer in golden:
        predicted, golden_tokens = (set(text.split()) for text in _compared(prediction, answer))
        common = len(predicted & golden_tokens)
        scores.append(2.0 * common / (len(predicted) + len(golden_tokens)) if common else 0.0)
    return max(scores, default=0.0)


def set_f1(prediction: str, golden: Iterable[str]) -> float:
    """F1 of PiCA's released code: overlap of token *sets* over token list lengths. Kept for parity only.

    A repeated word is counted in the lengths but not in the overlap, so a perfect answer may score below 1.

    >>> set_f1("Duran Duran", ["Duran Duran"])
    0.5
    """
    best = 0.0
    for answer in golden:
        predicted, golden_tokens = (text.split() for text in _compared(prediction, answer))
        common = len(set(predicted) & set(golden_tokens))
        if common:
            precision, recall = common / len(predicted), common / len(golden_tokens)
            best = max(best, 2.0 * precision * recall / (precision + recall))
    return best


METRICS: Final[Mapping[str, Callable[[str, Iterable[str]], float]]] = {
    "em": exact_match,
    "f1": token_f1,
    "pica_f1": pica_f1,
    "sub_em": sub_match,
}


def metric(name: str) -> Callable[[str, Iterable[str]], float]:
    """The metric with this name: "em", "f1", "pica_f1" or "sub_em".

    Raises:
        ConfigError: no such metric.
    """
    check_name("answer metric", name, METRICS)
    return METRICS[name]
