"""Outcome and format rewards of whole transcripts.

Rewards are separate from credit: a scheme reads the outcome of a rollout, whatever it was computed from. ``REWARDS``
contains the published ones by name; others are made of the same parts:

>>> transcript = Transcript("<think>easy</think><answer>The Nile</answer>", golden=("Nile",))
>>> REWARDS["pica"](transcript), REWARDS["search_r1_format"](transcript)  # the latter expects an example in the prompt
(1.0, 0.2)
>>> REWARDS["search_r1_format"](transcript._replace(prompt="Such as <answer>Rome</answer>. "))
1.0
>>> mild = Reward(metric="f1", format_rule="search_r1", correct_bad_format=0.9, incorrect_good_format=0.05)
>>> mild(transcript._replace(response="I say <answer>Nile</answer>"))
0.9
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.wikisearch.grading.formats import (
    FORMAT_RULES,
    Transcript,
    final_answer,
    last_answer,
    retrieved_answer,
    second_answer,
)
from creditflow.envs.wikisearch.grading.grade import Judge
from creditflow.envs.wikisearch.grading.scoring import METRICS, set_f1, token_f1

__all__ = ["REWARDS", "Reward", "Transcript", "named_reward"]

AnswerRule = Literal["last", "second", "final"]
_ANSWERS: Final[Mapping[str, Callable[[Transcript], str | None]]] = {
    "last": last_answer,
    "second": second_answer,
    "final": final_answer,
}
_SCORES: Final[Mapping[str, Callable[[str, tuple[str, ...]], float]]] = {
    **METRICS,
    "set_f1": set_f1,
    "rounded_f1": lambda answer, golden: round(token_f1(answer, golden), 4),
}


@dataclass(frozen=True, kw_only=True)
class Reward:
    """The reward of a transcript: the grade of its answer, changed where its format is wrong.

    Attributes:
        metric: grades the answer in [0, 1]: "em", "f1", "sub_em"; "set_f1" (PiCA's), "rounded_f1" (StepSearch's).
        answer: which block is the answer: the "last" of the response, the "second" or later of prompt and response
            (Search-R1, whose prompt shows one), or the "final" one, with nothing after it.
        judge: grades instead of the metric: (question, golden answers, answer) → score in [0, 1].
        format_rule: name of a rule in ``FORMAT_RULES``; "" for none.
        correct_bad_format: factor of a grade above 0 if the format is wrong.
        incorrect_good_format, incorrect_bad_format: reward for a grade of 0; the latter applies without a rule.
        unanswered_good_format, unanswered_bad_format: reward without an answer; likewise.
        retrieved: added for a well-formed transcript without a correct answer that retrieved a golden one.

    Raises:
        ConfigError: an unknown name.
    """

    metric: str = "em"
    answer: AnswerRule = "last"
    judge: Judge | None = None
    format_rule: str = ""
    correct_bad_format: float = 1.0
    incorrect_good_format: float = 0.0
    incorrect_bad_format: float = 0.0
    unanswered_good_format: float = 0.0
    unanswered_bad_format: float = 0.0
    retrieved: float = 0.0

    def __post_init__(self) -> None:
        for kind, name, registered in (
            ("answer metric", self.metric, list(_SCORES)),
            ("rule for answers", self.answer, get_args(AnswerRule)),
            ("format", self.format_rule, ["", *FORMAT_RULES]),
        ):
            if name not in registered:
                raise unknown_name_error(kind, name, registered)

    def grade(self, transcript: Transcript) -> float | None:
        """The answer's grade in [0, 1]; None without an answer.

        Raises:
            ConfigError: the judge returned something other than a score in [0, 1].
        """
        answer = _ANSWERS[self.answer](transcript)
        if answer is None:
            return None
        if self.judge is None:
            return _SCORES[self.metric](answer, transcript.golden)
        score = float(self.judge(transcript.question, transcript.golden, answer))
        if not 0.0 <= score <= 1.0:
            raise ConfigError(f"a judge must return a score in [0, 1], got {short_repr(score)}")
        return score

    def well_formed(self, transcript: Transcript) -> bool:
        """Whether the transcript has the format; False without a rule."""
        return bool(self.format_rule) and FORMAT_RULES[self.format_rule](transcript).valid

    def __call__(self, transcript: Transcript) -> float:
        """The reward."""
        grade, formed = self.grade(transcript), self.well_formed(transcript)
        if grade:
            return grade if formed or not self.format_rule else grade * self.correct_bad_format
        if formed:
            base = self.unanswered_good_format if grade is None else self.incorrect_good_format
            return base + (self.retrieved if self.retrieved and retrieved_answer(transcript) else 0.0)
        return self.unanswered_bad_format if grade is None else self.incorrect_bad_format


def search_r1_format(
    *, structure_format_score: float = 0.2, final_format_score: float = 0.1, retrieval_score: float = 0.0
) -> Reward:
    """Search-R1's exact match, with partial reward for the format and for retrieving the answer.

    Args:
        structure_format_score: subtracted for a correct answer in a wrong format; the reward of a good format without one.
        final_format_score: reward of an incorrect answer in a wrong format.
        retrieval_score: added where a good format without a correct answer retrieved a golden one.
    """
    return Reward(
        answer="second",
        format_rule="search_r1",
        correct_bad_format=1.0 - structure_format_score,
        incorrect_good_format=structure_format_score,
        unanswered_good_format=structure_format_score,
        incorrect_bad_format=final_format_score,
        retrieved=retrieval_score,
    )


REWARDS: Final[Mapping[str, Reward]] = {
    "em": Reward(),
    "f1": Reward(metric="f1"),
    "sub_em": Reward(metric="sub_em"),
    "search_r1": Reward(answer="second"),
    "search_r1_sub_em": Reward(metric="sub_em", answer="second"),
    "search_r1_format": search_r1_format(),
    "pica": Reward(metric="set_f1", answer="final", unanswered_bad_format=-1.0),
    "stepsearch": Reward(metric="rounded_f1", answer="final", unanswered_bad_format=-1.0),
    "egrpo": Reward(format_rule="egrpo", correct_bad_format=0.0),
}


def named_reward(name: str) -> Reward:
    """The published reward with this name.

    Raises:
        ConfigError: the name is unknown; the message suggests the nearest one.
    """
    if name not in REWARDS:
        raise unknown_name_error("reward", name, REWARDS)
    return REWARDS[name]
