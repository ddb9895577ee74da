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

Format checks read a transcript, all text after the prompt: the model's and the environment's, with their tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.envs.wikisearch.actions import blocks, turn_fault
from creditflow.envs.wikisearch.grading.scoring import METRICS, Judge, set_f1, sub_match, token_f1

__all__ = [
    "FORMAT_RULES",
    "REWARDS",
    "FormatCheck",
    "Reward",
    "Transcript",
    "final_answer",
    "last_answer",
    "named_reward",
    "retrieved_answer",
    "second_answer",
]


class FormatCheck(NamedTuple):
    """Whether a transcript has the format, and the published checker's reason."""

    valid: bool
    reason: str


class Transcript(NamedTuple):
    """An episode as text.

    Attributes:
        response: everything after the prompt.
        golden: the golden answers.
        question: its text, for judges.
        prompt: the text before the response.
        marked: whether the chat template's assistant marker was found, which Search-R1's checker requires.
        turns: what the model wrote in each turn, and the thought that a server kept apart from it; () if unknown.
    """

    response: str
    golden: tuple[str, ...]
    question: str = ""
    prompt: str = ""
    marked: bool = True
    turns: tuple[tuple[str, str], ...] = ()


# -- where the answer is ----------------------------------------------------------------------------------------------
def last_answer(transcript: Transcript) -> str | None:
    """The last answer block of the response, stripped; None without one."""
    answers = [block.body for block in blocks(transcript.response, "answer")]
    return answers[-1].strip() if answers else None


def second_answer(transcript: Transcript) -> str | None:
    """Search-R1's rule: the last block of prompt and response; None with fewer than two, as its prompt contains an example."""
    answers = [block.body for block in blocks(transcript.prompt + transcript.response, "answer")]
    return answers[-1].strip() if len(answers) > 1 else None


def final_answer(transcript: Transcript) -> str | None:
    """PiCA's rule: the answer block at the end of the response; None if there is none."""
    text, closing, after = transcript.response.rpartition("</answer>")
    if not closing or after.strip():
        return None
    _, opening, answer = text.rpartition("</answer>")[2].partition("<answer>")
    return answer.strip() if opening else None


def retrieved_answer(transcript: Transcript) -> bool:
    """Whether an information block contains a golden answer."""
    results = blocks(transcript.prompt + transcript.response, "information")
    return any(sub_match(block.body, transcript.golden) for block in results)


# -- formats ------------------------------------------------------------------------------------------------------------
# Search-R1's checker: state -> {tag: next state}; text other than white space is allowed only inside a block
_TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "start": {"<think>": "in_think"},
    "in_think": {"</think>": "after_think"},
    "after_think": {"<search>": "in_search", "<answer>": "in_answer"},
    "in_search": {"</search>": "after_search"},
    "after_search": {"<information>": "in_information"},
    "in_information": {"</information>": "information"},
    "information": {"<think>": "in_think"},
    "in_answer": {"</answer>": "end"},
    "end": {},
}
_CHECKED_TAGS: Final = ("think", "search", "information", "answer")
_CHECKED: Final = re.compile(rf"(</?(?:{'|'.join(_CHECKED_TAGS)})>)")


def _search_r1(transcript: Transcript) -> FormatCheck:
    """Search-R1's format, with the reasons of its checker: (think search information)* think answer, and nothing between."""
    if not transcript.marked:
        return FormatCheck(False, "Missing assistant marker")
    content = transcript.response
    for tag in _CHECKED_TAGS:
        opened, closed = content.count(f"<{tag}>"), content.count(f"</{tag}>")
        if opened != closed:
            return FormatCheck(False, f"Mismatch in {tag} tags: {opened} opening vs {closed} closing tags")
    state = "start"
    for piece in _CHECKED.split(content):
        if not piece.strip():
            continue
        if _CHECKED.fullmatch(piece):
            if piece not in _TRANSITIONS[state]:
                return FormatCheck(False, f"Unexpected tag {piece} in state {state}")
            state = _TRANSITIONS[state][piece]
        elif state == "end":
            return FormatCheck(False, "Unexpected content in state end")
        elif not state.startswith("in_"):
            return FormatCheck(False, f"Unexpected content '{piece.strip()}' between tags (state: {state})")
    if state != "end":
        return FormatCheck(False, f"Incomplete sequence, ended in state {state}")
    return FormatCheck(True, "Valid sequence format")


def _outside_results(response: str) -> list[str]:
    results = list(blocks(response, "tool_response"))
    starts, ends = [0, *(block.end for block in results)], [*(block.start for block in results), len(response)]
    return [response[start:end] for start, end in zip(starts, ends, strict=True)]


def _egrpo(transcript: Transcript) -> FormatCheck:
    """E-GRPO's format (app. A): every turn is well formed (``turn_fault``), the last one answers and the others call a tool.

    Where the turns are not known, they are what stands outside of results.
    """
    turns = transcript.turns or [(text, "") for text in _outside_results(transcript.response)]
    for i, (text, thought) in enumerate(turns):
        calls = ("answer",) if i == len(turns) - 1 else ("tool_call",)
        if fault := turn_fault(text, thought, calls):
            return FormatCheck(False, f"Turn {i}: {fault}")
    return FormatCheck(True, "Every turn is a thought and a call, the last one an answer")


def _answer_last(transcript: Transcript) -> FormatCheck:
    """PiCA's and StepSearch's format: the response ends with an answer block."""
    if final_answer(transcript) is None:
        return FormatCheck(False, "The response does not end with an answer")
    return FormatCheck(True, "The response ends with an answer")


FORMAT_RULES: Final[Mapping[str, Callable[[Transcript], FormatCheck]]] = {
    "search_r1": _search_r1,
    "egrpo": _egrpo,
    "answer_last": _answer_last,
}


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
