"""The yield of a synthesis: its questions, the reasons of the rejected candidates, and what was asked already."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from creditflow.envs.wikisearch.questions import Question
from creditflow.train.synthesis.settings import SynthesisSettings

__all__ = ["DEAD_END", "Yield"]

DEAD_END: Final = "dead end"


@dataclass
class Yield:
    """What became of the candidates.

    Attributes:
        settings: settings of the synthesis.
        questions: the questions, in order.
        reasons: rejected candidates by recipe and reason.
        candidates: number of the next candidate.
        lines: lines of the provenance.
    """

    settings: SynthesisSettings
    questions: list[Question] = field(default_factory=list)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    candidates: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    _facts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _texts: set[str] = field(default_factory=set)

    def is_complete(self) -> bool:
        """Whether there are enough questions, or all candidates were tried."""
        return (
            len(self.questions) >= self.settings.limit
            or self.candidates >= self.settings.limit * self.settings.attempts
        )

    def add(self, line: dict[str, Any]) -> None:
        """Count a candidate, and those since the last one, which were dead ends.

        Args:
            line: a line of the provenance.

        Raises:
            KeyError: an entry is missing.
            ValueError: a wrong entry (DataError: a malformed question).
        """
        number, recipe, reason = line["candidate"], line["recipe"], line["reason"]
        question = None if line["question"] is None else Question.from_json(line["question"])
        if type(number) is not int or not self.candidates <= number < self.settings.limit * self.settings.attempts:
            raise ValueError("numbers of candidates ascend, and end with the last attempt")
        if recipe != self.settings.recipes[number % len(self.settings.recipes)]:
            raise ValueError("recipes take turns")
        if type(reason) is not str or (reason == "") != (question is not None):
            raise ValueError("a candidate has a question, or the reason why there is none")
        if question is not None and not question.edges:
            raise ValueError("a synthesised question has links")
        self._skip(number)
        self.candidates = number + 1
        if question is None:
            self.reasons[recipe, reason] += 1
        else:
            self.questions.append(question)
            self._texts.add(question.text)
            self._facts.update(_keys(question))
        self.lines.append(line)

    def finish(self) -> None:
        """Count the dead ends after the last line."""
        if len(self.questions) < self.settings.limit:
            self._skip(self.settings.limit * self.settings.attempts)

    def _skip(self, until: int) -> None:
        recipes = self.settings.recipes
        for number in range(self.candidates, until):
            self.reasons[recipes[number % len(recipes)], DEAD_END] += 1
        self.candidates = max(self.candidates, until)

    def repeats(self, question: Question) -> str:
        """Why a question is too much like those that were kept; "" if it is not."""
        facts, end = _keys(question)
        if self._facts[facts] or question.text in self._texts:
            return "repeated"
        return "repeated end" if self._facts[end] >= self.settings.same_end else ""


def _keys(question: Question) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The facts and the answer of a question, and its last fact."""
    facts = ("all", question.answer_node, *sorted("\n".join(edge) for edge in question.edges))
    return facts, ("end", *question.edges[-1])
