"""A stand-in for a language model on search prompts: it reads facts where they are written, and knows none by itself.

It is given the decomposition of every question (the golden sub-questions, not their answers), so that what it reaches shows what
a way of prompting lets through: which passages enter which prompt. It says nothing about language models, which decompose,
read and remember worse, and know facts of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from creditflow.envs.wikisearch.evidence import UNKNOWN
from creditflow.envs.wikisearch.questions import Question

__all__ = ["ScriptedReader"]

_REFERENCE = re.compile(r"#(\d+)")


@dataclass(frozen=True)
class ScriptedReader:
    """The completion of a prompt, in the format that the prompt asks for.

    Attributes:
        questions: by their text.
        passages: texts of the golden passages, by id.
        overlooks: fraction of the facts in a prompt that are overlooked; which ones is a function of the prompt.
    """

    questions: Mapping[str, Question]
    passages: Mapping[str, str]
    overlooks: float = 0.0

    def __call__(self, prompt: str) -> str:
        """The completion."""
        question = self._question(prompt)
        known = self._known(question, prompt)
        if "Documents:\n" in prompt:  # Reason-in-Documents
            notes = [_note(question, j, answer) for j, answer in known.items() if self._shown(question, j, prompt)]
            return " ".join(notes) or "nothing that helps"
        if len(known) == len(question.steps):
            return _written(prompt, "answer", question.answers[0])
        query = self._query(question, known, prompt) if _can_search(prompt) else ""
        return _written(prompt, "search", query) if query else _written(prompt, "answer", UNKNOWN)

    def _question(self, prompt: str) -> Question:
        for line in prompt.splitlines():
            found = self.questions.get(line.partition("Question: ")[2].strip())
            if found is not None:
                return found
        raise AssertionError(f"no known question in the prompt {prompt[:200]!r}")

    def _shown(self, question: Question, j: int, prompt: str) -> bool:
        name = question.steps[j].passage_id
        return bool(name) and self.passages[name] in prompt

    def _known(self, question: Question, prompt: str) -> dict[int, str]:
        """Answers of the sub-questions that the prompt tells, by number; what they refer to must be known before."""
        known: dict[int, str] = {}
        for j, step in enumerate(question.steps):
            told = not step.passage_id or _note(question, j, step.answer) in prompt
            if not told and self._shown(question, j, prompt):
                digest = blake2b(f"{j}\0{prompt}".encode(), digest_size=8).digest()
                told = int.from_bytes(digest, "big") >= self.overlooks * 2.0**64
            needs = {int(number) - 1 for number in _REFERENCE.findall(step.question)}
            if not step.passage_id:
                needs |= set(range(j))  # a conclusion from all before
            if told and needs <= known.keys():
                known[j] = step.answer
        return known

    def _query(self, question: Question, known: Mapping[int, str], prompt: str) -> str:
        """The next query that was not tried: the first open sub-question, the names in it, the question; "" if there is none."""
        for j, step in enumerate(question.steps):
            needs = {int(number) - 1 for number in _REFERENCE.findall(step.question)}
            if j in known or not needs <= known.keys():
                continue
            text = _REFERENCE.sub(lambda match: known[int(match[1]) - 1], step.question)
            names = [entity.name for entity in question.entities if entity.name in text]
            for query in (text, *sorted(names, key=len, reverse=True), question.text):
                if f"<search> {query} </search>" not in prompt and f"Action: search: {query}\0" not in prompt:
                    return query
        return ""


def _note(question: Question, j: int, answer: str) -> str:
    return f"{question.steps[j].question.rstrip('?')}: {answer}."


def _can_search(prompt: str) -> bool:
    return "<search>" in prompt or "search: what to look for" in prompt


def _written(prompt: str, tool: str, text: str) -> str:
    if "begins with Action:" in prompt:
        return f"Thought: so far\nAction: {tool}: {text}"
    return f"so far <{tool}> {text} </{tool}>" if "</answer>" in prompt else text
