"""Labellers of search episodes: which turns were pivots.

A pivot obtains the answer of a golden step with that step's own query (PiCA, appendix A). Two labellers decide it: a rule
over golden steps and retrieved passages, and an LLM judge that reads what was retrieved. Both give one label per turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.grading.grade import Judge
from creditflow.envs.wikisearch.questions import Question, SubQuestion
from creditflow.wrappers.records.stop_reasons import ANSWERED
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["JudgeLabeller", "Labeller", "RuleLabeller"]

_REFERENCE: Final = re.compile(r"#(\d+)")


class Labeller(Protocol):
    """Labels the turns of an episode. ``name`` is written to the label file."""

    name: str

    def label(self, trajectory: Trajectory, question: Question) -> tuple[str, ...]:
        """One of ``TURN_LABELS`` per turn.

        Args:
            trajectory: a full episode; a branch comes with the turns of its prefix.
            question: the task of the episode.
        """
        ...


class RuleLabeller:
    """Labels by golden steps, in the order of their premises.

    A tool turn is "+" if its query names what a golden step asks about, the answers that the step refers to ("#k") are
    known, and its result contains the step's passage (or, where the data name no passage, the step's answer) for the first
    time. A passage found by chance is known from then on, but its turn is not a pivot. A rule has no access to the
    model's reasoning: the paper's "+" for a failed search that is recognised as such needs an LLM judge.
    """

    name = "rule"

    def label(self, trajectory: Trajectory, question: Question) -> tuple[str, ...]:
        """One of ``TURN_LABELS`` per turn."""
        answered: set[int] = set()
        return _labels(trajectory, lambda turn, result: self._tool(turn, result, question, answered))

    def _tool(self, turn: Turn, result: str, question: Question, known: set[int]) -> str:
        query = " ".join(turn.queries) or turn.action
        fresh = [
            j for j, step in enumerate(question.steps) if j not in known and _found(step, turn, result)
        ]  # fmt: skip
        # a passage may answer two steps, the second of which refers to the first
        pivot = False
        for j in fresh:
            if all(k in known for k in _premises(question.steps[j])):
                pivot |= _asks(query, question, question.steps[j])
            known.add(j)
        return "+" if pivot else "-"


class JudgeLabeller:
    """Labels by asking an LLM judge whether a result answers a golden step that is still open.

    Args:
        judge: (question, golden answers, text) → 1.0 if the text gives the answer; ``envs.wikisearch.judge`` makes one
            of an OpenAI-compatible server, with a cache.
        name: of the judge, for the label file.
    """

    def __init__(self, judge: Judge, name: str = "judge") -> None:
        self.judge, self.name = judge, name

    def label(self, trajectory: Trajectory, question: Question) -> tuple[str, ...]:
        """One of ``TURN_LABELS`` per turn."""
        answered: set[int] = set()
        return _labels(trajectory, lambda _, result: self._tool(result, question, answered))

    def _tool(self, result: str, question: Question, known: set[int]) -> str:
        for j, step in enumerate(question.steps):
            if j in known or not all(k in known for k in _premises(step)):
                continue
            if self.judge(_filled(question, step), (step.answer,), result) >= 1.0:
                known.add(j)
                return "+"
        return "-"


def _labels(trajectory: Trajectory, tool: Callable[[Turn, str], str]) -> tuple[str, ...]:
    """Labels of all turns; ``tool`` labels a turn with a query or a visit, given the turn and its result.

    The result is the next turn's observation, or "" for the last turn.
    """
    turns = trajectory.turns
    labels = []
    for t, turn in enumerate(turns):
        last = t == len(turns) - 1
        if turn.queries or turn.doc_ids:
            labels.append(tool(turn, "" if last else turns[t + 1].observation))
        else:
            labels.append(_answer_label(turn, trajectory.stop_reason if last else ""))
    return tuple(labels)


def _answer_label(turn: Turn, end: str) -> str:
    if not turn.valid or end not in ANSWERED:
        return ""
    return "+" if end == "success" else "-"


def _premises(step: SubQuestion) -> list[int]:
    return [int(number) - 1 for number in _REFERENCE.findall(step.question)]


def _filled(question: Question, step: SubQuestion) -> str:
    """The golden sub-question with the answers it refers to."""
    answers = [earlier.answer for earlier in question.steps]

    def answer(match: re.Match[str]) -> str:
        k = int(match[1]) - 1
        return answers[k] if k < len(answers) else match[0]

    return _REFERENCE.sub(answer, step.question)


def _found(step: SubQuestion, turn: Turn, result: str) -> bool:
    return step.passage_id in turn.doc_ids if step.passage_id else normalized_phrase(step.answer, result)


def _asks(query: str, question: Question, step: SubQuestion) -> bool:
    """Whether a query names what the step asks about; for steps about no listed entity, any query does."""
    asked = _filled(question, step)
    forms_asked: list[str] = []
    for entity in question.entities:
        forms = (entity.name, *entity.aliases)
        if any(normalized_phrase(form, asked) for form in forms):
            forms_asked += forms
    return not forms_asked or any(normalized_phrase(form, query) for form in forms_asked)
