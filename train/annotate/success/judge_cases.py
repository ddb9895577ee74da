"""Hand-made episodes that tell a good judge of pivots from a bad one: one for every rule of PiCA's appendix A.

They all answer one question of two hops, with names that no model has read about. ``creditflow data label --judge`` asks the
judge for them before it labels a log, and names those that it gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from creditflow.envs.errors import ServiceError
from creditflow.envs.wikisearch.questions import Question, SubQuestion
from creditflow.train.annotate.success.labelling import judge_case
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["CASES", "JudgeCase", "missed_cases"]

QUESTION: Final = Question(
    id="harlow", text="In which town was the founder of Harlow Press born?", answers=("Tarn",), kind="bridge",
    steps=(
        SubQuestion("Who founded Harlow Press?", "Ines Vale", ""),
        SubQuestion("In which town was #1 born?", "Tarn", ""),
    ),
    entities=(), edges=(), answer_node="", supporting=(), corpus="",
)  # fmt: skip

PRESS: Final = (
    "Harlow Press is a publisher of atlases. It was founded in 1911 by Ines Vale; Otto Brandt was its first printer."
)
SILENT: Final = "Harlow Press is a publisher of atlases. It has its seat in Mire and is known for its maps of rivers."
VALE: Final = "Ines Vale (1880-1951) was a publisher. She was born in Tarn and lived in Mire from 1902."
BRANDT: Final = "Otto Brandt (1875-1940) was a printer. He was born in Mire."
CASTLE: Final = "Harlow Castle is a ruin of the twelfth century. It was built by the counts of Orm."
FOUNDER: Final = "Who founded Harlow Press?"
BIRTH: Final = "In which town was Ines Vale born?"
FOUND: Final = "The founder of Harlow Press is Ines Vale. Now I need the town where she was born."
BORN: Final = "Ines Vale was born in Tarn, which answers the question."
LONG: Final = "The press printed a map of every river in the country, one sheet a year, sold by subscription. " * 30


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """An episode and the labels that the rules give its searches.

    Attributes:
        rule: the rule that decides it.
        searches: per search the query, its result, and the thought about the result.
        answer: the final answer.
        labels: the label of every search.
    """

    rule: str
    searches: tuple[tuple[str, str, str], ...]
    answer: str
    labels: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The case as the judge sees it."""
        thought, last_result, turns = "I look for the founder first.", "", []
        for t, (query, result, next_thought) in enumerate(self.searches):
            turns.append(Turn(f"s{t}", query, f"s{t + 1}", thought=thought, observation=last_result, queries=(query,)))
            thought, last_result = next_thought, result
        end = len(turns)
        turns.append(Turn(f"s{end}", self.answer, f"s{end + 1}", thought=thought, observation=last_result))
        success = self.answer in QUESTION.answers
        stop_reason: StopReason = "success" if success else "failed"
        member = Trajectory("t", "g", "harlow", tuple(turns), success, float(success), stop_reason, f"s{end + 1}")
        return judge_case(member, QUESTION)


CASES: Final = (
    JudgeCase("golden queries whose answers are used", ((FOUNDER, PRESS, FOUND), (BIRTH, VALE, BORN)), "Tarn", ("+", "+")),
    JudgeCase(
        "a failed search that is recognised",
        (
            (FOUNDER, SILENT, "The result does not name the founder. I search again."),
            ("Harlow Press founder", PRESS, FOUND),
            (BIRTH, VALE, BORN),
        ),
        "Tarn",
        ("+", "+", "+"),
    ),
    JudgeCase(
        "omission",
        ((FOUNDER, PRESS, "This is about atlases. I try once more."), (FOUNDER, PRESS, FOUND), (BIRTH, VALE, BORN)),
        "Tarn",
        ("-", "+", "+"),
    ),
    JudgeCase(
        "deviation",
        (
            ("Who built Harlow Castle?", CASTLE, "That is a castle. I look for the press instead."),
            (FOUNDER, PRESS, FOUND),
            (BIRTH, VALE, BORN),
        ),
        "Tarn",
        ("-", "+", "+"),
    ),
    JudgeCase("hallucination", ((FOUNDER, SILENT, FOUND), (BIRTH, VALE, BORN)), "Tarn", ("-", "+")),
    JudgeCase(
        "mismatch",
        (
            (FOUNDER, PRESS, "The founder of Harlow Press is Otto Brandt. Now I need the town where he was born."),
            ("In which town was Otto Brandt born?", BRANDT, "Otto Brandt was born in Mire, which answers the question."),
        ),
        "Mire",
        ("-", "-"),
    ),
    JudgeCase(
        "false positive",
        ((FOUNDER, PRESS, FOUND), (BIRTH, VALE, "Ines Vale was born in Mire, which answers the question.")),
        "Mire",
        ("+", "-"),
    ),
    JudgeCase(
        "conflict with the final answer",
        ((FOUNDER, PRESS, FOUND), (BIRTH, VALE, "The result names Tarn and Mire; I answer the town she lived in.")),
        "Mire",
        ("+", "-"),
    ),
    JudgeCase(
        "an answer at the end of a long result", ((FOUNDER, LONG + PRESS, FOUND), (BIRTH, VALE, BORN)), "Tarn", ("+", "+")
    ),
)  # fmt: skip


def missed_cases(judge: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> list[str]:
    """The rules whose case the judge labels otherwise, or replies to in another form.

    Raises:
        ServiceError: the judge replies to no case at all, such as a server that cannot be reached.
    """
    missed, failures = list[str](), list[ServiceError]()
    for case in CASES:
        try:
            labels = tuple(judge(case.as_json())["labels"])
        except ServiceError as error:
            labels, failures = (), [*failures, error]
        if labels != case.labels:
            missed.append(case.rule)
    if len(failures) == len(CASES):
        raise failures[0]
    return missed
