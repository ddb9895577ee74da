"""StepSearch: the outcome with a search-key score, plus the information gain of each retrieval.

The published method is PPO with a critic. A scheme sees a group instead, so the critic is replaced by the mean return-to-go
of the group's trajectories at the same turn number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import short_repr
from creditflow.envs.sums import sum_in_order
from creditflow.envs.wikisearch.grading.scoring import normalize_answer, token_f1
from creditflow.wrappers.credit.base import Credit, CreditError
from creditflow.wrappers.credit.malformed import malformed_turns
from creditflow.wrappers.credit.normalize import normalize
from creditflow.wrappers.credit.outcome import Outcome, OutcomeScheme, answered, outcome_scores
from creditflow.wrappers.credit.registry import register
from creditflow.wrappers.records.group import Group, backward_sums
from creditflow.wrappers.records.task_documents import search_payload_problem
from creditflow.wrappers.records.trajectory import Turn

__all__ = ["GoldenPassages", "StepSearch", "information_gains", "redundancies", "rounded_f1", "search_key_score"]

_WORD: Final = re.compile(r"\b\w\w+\b")
_REFERENCE: Final = re.compile(r"#(\d+)")
_HELP: Final = "WikiSearch groups contain both if questions name golden passages and the corpus is available"


class _Retrieval(NamedTuple):
    """What an episode retrieved: gain and redundancy of all its turns (T,), and its search-key score."""

    gain: NDArray[np.float64]
    redundancy: NDArray[np.float64]
    keys: float


@register
@dataclass(frozen=True, kw_only=True)
class StepSearch(OutcomeScheme):
    """A_t = A^O + w (Q_t − mean Q over the group's turns of that number), Q_t = Σ_{k≥t} γ^(k−t) (G_k − P_k).

    The outcome is R = score + γ_key r_key, where r_key is the mean over sub-questions of the best token F1 of a query.
    Its advantage A^O is that of grpo. G_t = 1/C Σ_c max(m_c^t − M_c^(t−1), 0) is the improvement by turn t of the best
    TF-IDF match with each of the C golden passages. P_t is the fraction of the turn's passages that were retrieved
    before. Both are 0 if the turn retrieves nothing. For the paper's outcome, record WikiSearch with metric="f1".

    From the task's payload the scheme reads "supporting" and "documents" (golden passages and the texts of all
    passages). For r_key it also reads "search_keys" (one list of alternatives per sub-question) or "steps" (golden
    sub-questions, in which "#k" stands for the answer of step k).

    Attributes:
        key_weight: γ_key. With 0 no sub-questions are needed.
        step_weight: w. The released trainer intends 0.6 but adds it to the raw reward in place, which gives 1.6.
        discount: γ of Q. With 0, Q_t = G_t − P_t.
        repeats: which passages are redundant: "earlier" (paper: retrieved in an earlier turn) or "anywhere" (released
            code: also the second copy within a turn).
        pairing: how queries are paired with sub-questions: "best" (paper) or "last" (released code: a later query
            replaces a better one).
        unanswered: reward of a trajectory that ended without an answer (at a limit, by a format error): its "score" and
            step rewards, or "minus_one" without step rewards (released code).
    """

    name = "stepsearch"
    source = (
        "StepSearch (arXiv 2505.15107), information gain, redundancy and search-key reward. Released code: "
        "Zillwang/StepSearch @ 43215ba"
    )
    verification = "the paper, and numbers computed by the released code (release preset)"
    limitations = (
        "It needs the golden passages. Turns are compared by their number, so a search one turn later is compared "
        "with searches for another sub-question. Retrieval is rewarded even if the answer is wrong."
    )
    presets = {
        "paper": {},
        "release": {"step_weight": 1.6, "repeats": "anywhere", "pairing": "last", "unanswered": "minus_one"},
    }
    task_fields = ("supporting", "documents")
    properties = frozenset({"branches", "one_member_zero", "permutation", "scale", "shift", "ties_zero"})
    ranges = {"discount": "[0, 1]", "key_weight": "[0, inf)"}

    outcome: Outcome = "score"
    key_weight: float = 0.618
    step_weight: float = 0.6
    discount: float = 1.0
    repeats: Literal["earlier", "anywhere"] = "earlier"
    pairing: Literal["best", "last"] = "best"
    unanswered: Literal["score", "minus_one"] = "score"

    def undefined_on(self, group: Group) -> str:
        """Return why the scheme cannot score a group, or "" if it can."""
        if reason := super().undefined_on(group) or _missing(group):
            return f"{reason}; {_HELP}"
        if self.key_weight > 0.0 and not _search_keys(group.task):
            return (
                "the task has no golden sub-questions ('search_keys' or 'steps'); key_weight=0 disables the search-key "
                "score"
            )
        return ""

    def _scores(self, group: Group, episodes: list[_Retrieval]) -> NDArray[np.float64]:
        """float64 (G,): outcomes with the search-key score."""
        scores = outcome_scores(group, self.outcome) + self.key_weight * np.array(
            [episode.keys for episode in episodes]
        )
        return np.where(self._unanswered(group), -1.0, scores)

    def _unanswered(self, group: Group) -> NDArray[np.bool_]:
        """bool (G,): trajectories that count as unanswered."""
        return ~answered(group) if self.unanswered == "minus_one" else np.zeros(len(group), np.bool_)

    @property
    def search_fields(self) -> tuple[str, ...]:
        """Queries, and the passages that they found."""
        return ("queries", "doc_ids")

    def assign(self, group: Group) -> Credit:
        """Score one group.

        Raises:
            CreditError: the payload lacks golden passages, texts or sub-questions.
        """
        if reason := self.undefined_on(group):
            raise CreditError(f"stepsearch is not applicable to group {group.group_id!r}: {reason}")
        arrays = group.arrays
        episodes = self._episodes(group)
        stored = group.episode_index.own
        gain = np.concatenate([episode.gain for episode in episodes])[stored]
        redundancy = np.concatenate([episode.redundancy for episode in episodes])[stored]
        rewards = np.where(self._unanswered(group)[arrays.trajectory], 0.0, gain - redundancy)
        outcome, turn_part = self.outcome_part(group, scores=self._scores(group, episodes))
        returns = backward_sums(rewards, arrays.offsets, self.discount)
        number = group.episode_index.number[stored]
        compared = normalize(
            returns,
            number.astype(np.int32),
            int(number.max(initial=-1)) + 1,
            scale="none",
            magnitude=backward_sums(np.abs(rewards), arrays.offsets, self.discount),
            quantity="step reward",
        )
        return Credit.of(
            group,
            outcome=outcome,
            step={
                "outcome, changed by the turn's own penalty": turn_part,
                "step reward among turns of this number": self.step_weight * compared,
            },
            rewards=rewards,
            diagnostics={
                "step_advantage": compared,
                "information_gain": gain,
                "redundancy": redundancy,
                "search_key_score": np.array([episode.keys for episode in episodes]),
            },
        )

    def _episodes(self, group: Group) -> list[_Retrieval]:
        golden, keys = GoldenPassages(_golden(group.task)), _search_keys(group.task)
        return [self._episode(turns, group.task["documents"], golden, keys) for turns in group.episodes]

    def _episode(
        self,
        turns: Sequence[Turn],
        documents: Mapping[str, Mapping[str, str]],
        golden: GoldenPassages,
        keys: list[list[str]],
    ) -> _Retrieval:
        names = [turn.doc_ids for turn in turns]
        gain = information_gains([_texts(documents, ids) for ids in names], golden)
        redundancy = redundancies(names, repeats=self.repeats)
        queries = [query for turn in turns for query in turn.queries]
        score = search_key_score(queries, keys, pairing=self.pairing) if self.key_weight > 0.0 else 0.0
        return _Retrieval(gain, redundancy, score)


def _texts(documents: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> list[str]:
    return [documents[name]["text"] for name in names]


def _golden(task: Mapping[str, Any]) -> list[str]:
    """Texts of the golden passages, which are given by id or title."""
    supporting = set(task["supporting"])
    return [
        document["text"]
        for name, document in task["documents"].items()
        if name in supporting or document["title"] in supporting
    ]


def _missing(group: Group) -> str:
    """Describe what the payload lacks, or return ""."""
    if reason := search_payload_problem(group.task) or malformed_turns(group, ("queries", "doc_ids")):
        return reason
    documents = group.task["documents"]
    if not group.task["supporting"]:
        return "the task has no golden passages ('supporting' is empty)"
    if not _golden(group.task):
        return f"'documents' contains no golden passage ({short_repr(group.task['supporting'][0])}, …)"
    unknown = next((name for turn in group.turns for name in turn.doc_ids if name not in documents), None)
    return "" if unknown is None else f"'documents' lacks the retrieved passage {short_repr(unknown)}"


def _search_keys(task: Mapping[str, Any]) -> list[list[str]]:
    if task.get("search_keys"):
        return [list(keys) for keys in task["search_keys"]]
    steps = task.get("steps") or ()
    answers = [step["answer"] for step in steps]

    def answer(match: re.Match[str]) -> str:
        number = int(match.group(1))
        return answers[number - 1] if 1 <= number <= len(answers) else match.group(0)

    return [[_REFERENCE.sub(answer, step["question"])] for step in steps]


class GoldenPassages:
    """The C golden passages of a question, prepared for comparison with retrieved ones.

    Args:
        texts: texts of the golden passages.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [_words(text) for text in texts]
        self._column = {word: i for i, word in enumerate(dict.fromkeys(chain.from_iterable(counts)))}
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
        counts = np.zeros(len(self._column))
        unknown = 0  # sum of squared counts of words that occur in no golden passage
        for word, count in words.items():
            column = self._column.get(word)
            if column is None:
                unknown += count * count
            else:
                counts[column] = count
        documents = 1.0 + len(self)
        idf = np.log((1.0 + documents) / (1.0 + self._seen_in + (counts > 0.0))) + 1.0
        rare = np.log((1.0 + documents) / 2.0) + 1.0
        golden, query = self._count * idf, counts * idf
        size = np.sqrt((golden**2).sum(axis=1) * (query @ query + unknown * rare**2))
        cosines: NDArray[np.float64] = np.divide(golden @ query, size, out=np.zeros(len(self)), where=size > 0.0)
        return cosines


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(normalize_answer(text)))


def information_gains(steps: Sequence[Sequence[str]], golden: GoldenPassages) -> NDArray[np.float64]:
    """G_t = 1/C Σ_c max(m_c^t − M_c^(t−1), 0), with m_c^t the best match of step t and M the best so far.

    Args:
        steps: texts that each of T steps retrieved.
        golden: C golden passages. If there are none, all gains are 0.

    Returns:
        float64 (T,), each in [0, 1]. They sum to the mean best match, which is at most 1.
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
        repeats: "earlier" counts passages of an earlier step, "anywhere" also the second copy within one step (released
            code).

    Returns:
        float64 (T,), each in [0, 1], and 0 if the step has no passages.
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


def _best_f1(queries: Sequence[str], key: Sequence[str]) -> float:
    return max((token_f1(query, key) for query in queries), default=0.0)


def rounded_f1(text: str, golden: Sequence[str]) -> float:
    """Best token F1, rounded to four decimals as in the released code."""
    return round(token_f1(text, golden), 4)


def search_key_score(
    queries: Sequence[str], keys: Sequence[Sequence[str]], *, pairing: Literal["best", "last"] = "best"
) -> float:
    """Return the mean over golden sub-questions of the token F1 of a query, in [0, 1] (0 without sub-questions).

    Args:
        queries: queries of an episode, in order.
        keys: alternative search keys of each sub-question.
        pairing: with "best" each sub-question counts its best query. With "last" (released code) a query counts for the
            sub-question it matches best (the first of equals) and replaces an earlier query there, even with a lower
            F1, and F1 is rounded.
    """
    if not keys:
        return 0.0
    if pairing == "best":
        return sum_in_order(_best_f1(queries, key) for key in keys) / len(keys)
    scores = [0.0] * len(keys)
    for query in queries:
        matches = [rounded_f1(query, key) for key in keys]
        top = max(matches)
        if top > 0.0:
            scores[matches.index(top)] = top
    return sum_in_order(scores) / len(keys)
