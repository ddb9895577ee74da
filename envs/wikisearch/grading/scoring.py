"""Answer metrics: normalisation, exact match, substring match, token F1.

The normalisation is the one that all open-domain question sets share, in its published order: lower case, ASCII punctuation
deleted, articles dropped, spaces collapsed. Curly quotes and dashes are not ASCII and stay.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from creditflow.envs.errors import check_name

__all__ = ["METRICS", "exact_match", "metric", "normalize_answer", "pica_f1", "set_f1", "sub_match", "token_f1"]

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


def normalize_answer(text: str) -> str:
    """The normalised form in which answers are compared.

    >>> normalize_answer("The  U.S.A.'s end")
    'usas end'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, golden: Iterable[str]) -> float:
    """1.0 if the prediction equals a golden answer once both are normalised, else 0.0."""
    normalized = normalize_answer(prediction)
    return float(any(normalized == normalize_answer(answer) for answer in golden))


def sub_match(prediction: str, golden: Iterable[str]) -> float:
    """1.0 if a golden answer occurs inside the prediction, else 0.0. An empty golden answer occurs everywhere."""
    normalized = normalize_answer(prediction)
    return float(any(normalize_answer(answer) in normalized for answer in golden))


def token_f1(prediction: str, golden: Iterable[str]) -> float:
    """Best F1 over the golden answers, of the *multisets* of tokens (SQuAD's rule). 0.0 without a common token.

    >>> token_f1("Walla Walla Washington", ["Walla Walla"])
    0.8
    """
    return max((_multiset_f1(prediction, answer) for answer in golden), default=0.0)


def _multiset_f1(prediction: str, answer: str) -> float:
    predicted, golden_tokens = normalize_answer(prediction).split(), normalize_answer(answer).split()
    common = (Counter(predicted) & Counter(golden_tokens)).total()
    return 2.0 * common / (len(predicted) + len(golden_tokens)) if common else 0.0


def pica_f1(prediction: str, golden: Iterable[str]) -> float:
    """PiCA's eqs. 16 and 17: F1 of token *sets*, 2 |T ∩ T*| / (|T| + |T*|), the best over the golden answers.

    >>> pica_f1("Duran Duran", ["Duran Duran"])
    1.0
    """
    predicted = set(normalize_answer(prediction).split())
    scores = []
    for answer in golden:
        golden_tokens = set(normalize_answer(answer).split())
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
        predicted, golden_tokens = normalize_answer(prediction).split(), normalize_answer(answer).split()
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
