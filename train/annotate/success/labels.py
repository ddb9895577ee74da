"""Labels for training a success model: which turns were pivots, and whether the episode succeeded.

A pivot obtains the answer of a golden step with that step's own query (PiCA, appendix A). Two labellers say so: a rule
over golden steps and retrieved passages, and a judge that reads what was retrieved. Both answer with one mark a turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from creditflow.envs.errors import DataError
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.failures import loading
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.text.entity_matching import normalized_phrase
from creditflow.envs.wikisearch.grading.grade import Judge
from creditflow.envs.wikisearch.questions import Question, SubQuestion
from creditflow.wrappers.records.stop_reasons import ANSWERED
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = [
    "TURN_LABELS",
    "JudgeLabeller",
    "Labeller",
    "Labels",
    "RuleLabeller",
    "read_labels",
    "write_labels",
]

FORMAT_VERSION: Final = 1
TURN_LABELS: Final = ("+", "-", "")  # a pivot, none, a turn that is neither (a refused action)
_REFERENCE: Final = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of one trajectory.

    Attributes:
        group_id, trajectory_id: which one.
        marks: one of ``TURN_LABELS`` a turn; the turn that answers has "+" if the answer is right.
        success: the outcome label.
        labeller: who marked.
    """

    group_id: str
    trajectory_id: str
    marks: tuple[str, ...]
    success: bool
    labeller: str

    def check(self, trajectory: Trajectory) -> None:
        """Raise DataError unless these are the labels of ``trajectory``."""
        where = f"labels of trajectory {self.trajectory_id!r} of group {self.group_id!r}"
        if (self.group_id, self.trajectory_id) != (trajectory.group_id, trajectory.trajectory_id):
            raise DataError(f"{where}: given to {trajectory.trajectory_id!r} of group {trajectory.group_id!r}")
        if len(self.marks) != len(trajectory.turns):
            raise DataError(
                f"{where}: {len(self.marks)} marks for {len(trajectory.turns)} turns; label this very log again"
            )
        if self.success != trajectory.success:
            raise DataError(f"{where}: the label says success is {self.success}, the log {trajectory.success}")


class Labeller(Protocol):
    """Marks the turns of an episode. ``name`` goes into the label file."""

    name: str

    def marks(self, trajectory: Trajectory, question: Question) -> tuple[str, ...]:
        """One of ``TURN_LABELS`` a turn.

        Args:
            trajectory: a full episode; a branch comes with the turns of its prefix.
            question: the task of the episode.
        """
        ...


class RuleLabeller:
    """Marks by golden steps, in order of their premises.

    A tool turn is "+" if its query names what a golden step asks about, the answers that step stands on ("#k") are
    known, and its result holds the step's passage (or, where the data name no passage, the step's answer) for the first
    time. What was found by chance is known from then on, but no pivot. A rule cannot see what a model *noticed*: the
    paper's "+" for a failed search that is recognised as such needs a judge.
    """

    name = "rule"

    def marks(self, trajectory: Trajectory, question: Question) -> tuple[str, ...]:
        """One of ``TURN_LABELS`` a turn."""
        known: set[int] = set()
        return tuple(
            self._tool(turn, shown, question, known) if turn.queries or turn.doc_ids else _answer_mark(turn, last)
            for turn, shown, last in _results(trajectory)
        )

    def _tool(self, turn: Turn, shown: str, question: Question, known: set[int]) -> str:
        query = " ".join(turn.queries) or turn.action
        fresh = [
            j for j, step in enumerate(question.steps) if j not in known and _found(step, turn, shown)
        ]  # fmt: skip
        # a passage may answer two steps, the second of which stands on the first
        pivot = False
        for j in fresh:
            if all(k in known for k in _premises(question.steps[j])):
                pivot |= _asks(query, question, question.steps[j])
            known.add(j)
        return "+" if pivot else "-"


class JudgeLabeller:
    """Marks by asking a judge whether a result answers a golden step that is still open.

    Args:
        judge: (question, golden answers, text) → 1.0 if the text gives the answer; ``envs.wikisearch.judge`` makes one
            of an OpenAI-compatible server, with a cache.
        name: of the judge, for the label file.
    """

    def __init__(self, judge: Judge, name: str = "judge") -> None:
        self.judge, self.name = judge, name

    def marks(self, trajectory: Trajectory, question: Question) -> tuple[str, ...]:
        """One of ``TURN_LABELS`` a turn."""
        known: set[int] = set()
        return tuple(
            self._tool(shown, question, known) if turn.queries or turn.doc_ids else _answer_mark(turn, last)
            for turn, shown, last in _results(trajectory)
        )

    def _tool(self, shown: str, question: Question, known: set[int]) -> str:
        for j, step in enumerate(question.steps):
            if j in known or not all(k in known for k in _premises(step)):
                continue
            if self.judge(_filled(question, step), (step.answer,), shown) >= 1.0:
                known.add(j)
                return "+"
        return "-"


def _results(trajectory: Trajectory) -> Iterator[tuple[Turn, str, str]]:
    """Every turn, what it returned (the next turn's observation), and how the episode ended, if with this turn."""
    turns = trajectory.turns
    for t, turn in enumerate(turns):
        last = t == len(turns) - 1
        yield turn, "" if last else turns[t + 1].observation, trajectory.stop_reason if last else ""


def _answer_mark(turn: Turn, end: str) -> str:
    if not turn.valid or end not in ANSWERED:
        return ""
    return "+" if end == "success" else "-"


def _premises(step: SubQuestion) -> list[int]:
    return [int(number) - 1 for number in _REFERENCE.findall(step.question)]


def _filled(question: Question, step: SubQuestion) -> str:
    """The golden sub-question with the answers it refers to."""
    answers = [one.answer for one in question.steps]

    def answer(match: re.Match[str]) -> str:
        k = int(match[1]) - 1
        return answers[k] if k < len(answers) else match[0]

    return _REFERENCE.sub(answer, step.question)


def _found(step: SubQuestion, turn: Turn, shown: str) -> bool:
    return step.passage_id in turn.doc_ids if step.passage_id else normalized_phrase(step.answer, shown)


def _asks(query: str, question: Question, step: SubQuestion) -> bool:
    """Whether a query names what the step asks about; for steps about no listed entity, any query does."""
    asked = _filled(question, step)
    named = [
        (entity.name, *entity.aliases)
        for entity in question.entities
        if any(normalized_phrase(form, asked) for form in (entity.name, *entity.aliases))
    ]
    return not named or any(normalized_phrase(form, query) for forms in named for form in forms)


def write_labels(path: str | Path, labels: Sequence[Labels]) -> None:
    """One JSON object a line."""
    with atomic_writer(path) as stream:
        for one in labels:
            row = {
                "format_version": FORMAT_VERSION, "group_id": one.group_id, "trajectory_id": one.trajectory_id,
                "marks": list(one.marks), "success": one.success, "labeller": one.labeller,
            }  # fmt: skip
            stream.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")


def read_labels(path: str | Path) -> dict[tuple[str, str], Labels]:
    """Labels by (group id, trajectory id).

    Raises:
        DataError: a malformed line, a mark that is none, or a trajectory labelled twice.
    """
    found: dict[tuple[str, str], Labels] = {}
    for where, row in read_json_lines(path):
        with loading(f"{where}: not a line of labels"):
            one = _read_row(row)
        key = (one.group_id, one.trajectory_id)
        if key in found:
            raise DataError(f"{where}: trajectory {one.trajectory_id!r} of group {one.group_id!r} is labelled twice")
        found[key] = one
    return found


def _read_row(row: Mapping[str, object]) -> Labels:
    if row["format_version"] != FORMAT_VERSION:
        raise ValueError(f"format_version {row['format_version']!r}, this reader knows {FORMAT_VERSION}")
    marks, success = row["marks"], row["success"]
    if not isinstance(marks, list) or not all(mark in TURN_LABELS for mark in marks):
        raise ValueError(f"marks must be a list of {', '.join(map(repr, TURN_LABELS))}")
    if not isinstance(success, bool):
        raise TypeError("success must be true or false")
    texts = [row[name] for name in ("group_id", "trajectory_id", "labeller")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("group_id, trajectory_id and labeller must be texts")
    return Labels(str(texts[0]), str(texts[1]), tuple(marks), success, str(texts[2]))
