"""A question with all that credit schemes read: entities, evidence graph, golden sub-questions and passages.

``Question`` is the task's content, with a strict JSON form. The evidence graph serves training and the evaluation of
credit; no agent receives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.reading import checked
from creditflow.envs.tasks import Task, content_id
from creditflow.envs.text.entity_matching import phrase_tokens

__all__ = ["Entity", "Question", "SubQuestion", "answer_node_of", "question_task"]

VERSION: Final = 1
MAX_ITEMS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of the evidence graph: its name and its other written forms."""

    name: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A golden step: "#k" in the question stands for the answer of step k (from 1); ``passage_id`` is an id or a title."""

    question: str
    answer: str
    passage_id: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        id: its name in the source.
        text: the question.
        answers: golden answers, all equally correct; at least one.
        kind: the source's type, such as "bridge" or "3hop1".
        entities: the evidence graph's nodes.
        edges: its (subject, relation, object) triples, by entity name.
        answer_node: the entity that is the answer; "" if the answer is not a node.
        steps: golden sub-questions and their answers.
        supporting: the golden passages, which together support the answer, by passage id, page or title.
        corpus: digest of the corpus that the passages are in; "" for any corpus.
        construction_entities: names of the entities that the construction of the question selected and replaced by a
            description, or of the part of a graph that it was written for (E-GRPO, appendix B.1); () if unknown. They
            are for credit only: the task's ids do not depend on them.
    """

    id: str
    text: str
    answers: tuple[str, ...]
    kind: str = ""
    entities: tuple[Entity, ...] = ()
    edges: tuple[tuple[str, str, str], ...] = ()
    answer_node: str = ""
    steps: tuple[SubQuestion, ...] = ()
    supporting: tuple[str, ...] = ()
    corpus: str = ""
    construction_entities: tuple[str, ...] = ()
    _names: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", frozenset(entity.name for entity in self.entities))
        where = f"question {self.id[:60]!r}"
        if not self.text.strip() or not self.answers:
            raise DataError(f"{where}: a question needs a text and at least one answer")
        if len(self._names) != len(self.entities):
            raise DataError(f"{where}: an entity name occurs twice")
        for subject, relation, obj in self.edges:
            if subject not in self._names or obj not in self._names:
                raise DataError(f"{where}: the edge ({subject!r}, {relation!r}, {obj!r}) names an unlisted entity")
        if self.answer_node and self.answer_node not in self._names:
            raise DataError(f"{where}: answer_node {self.answer_node!r} is not among the entities")
        if unlisted := sorted(set(self.construction_entities) - self._names):
            raise DataError(f"{where}: construction_entities names {unlisted[0]!r}, which is not among the entities")

    def to_json(self) -> dict[str, Any]:
        """The question as JSON values; ``from_json`` parses them."""
        content = {
            "version": VERSION,
            "id": self.id,
            "text": self.text,
            "answers": list(self.answers),
            "kind": self.kind,
            "entities": [{"name": entity.name, "aliases": list(entity.aliases)} for entity in self.entities],
            "edges": [list(edge) for edge in self.edges],
            "answer_node": self.answer_node,
            "steps": [{"question": s.question, "answer": s.answer, "passage_id": s.passage_id} for s in self.steps],
            "supporting": list(self.supporting),
            "corpus": self.corpus,
        }
        if self.construction_entities:
            content["construction_entities"] = list(self.construction_entities)
        return content

    @classmethod
    def from_json(cls, data: Any) -> Question:
        """A question from ``to_json``'s form, or from the payload of a recorded group.

        Raises:
            DataError: a malformed value.
        """
        if isinstance(data, Mapping):  # a log's payload also holds the texts of its documents
            data = {key: value for key, value in data.items() if key != "documents"}
        if not isinstance(data, Mapping) or data.get("version") != VERSION:
            raise DataError(f'expected a question (a JSON object with "version": {VERSION}), got {short_repr(data)}')
        keys = {name for name in cls.__dataclass_fields__ if not name.startswith("_")} - {"construction_entities"}
        if set(data) - {"construction_entities"} != keys | {"version"}:
            raise DataError(f"a question has the keys {sorted(keys)}, got {sorted(map(str, data))[:20]}")
        texts = {
            key: checked.text(data[key], f"question: {key}") for key in ("id", "text", "kind", "answer_node", "corpus")
        }
        entities = tuple(
            Entity(checked.text(row.get("name"), "question: entity"), _texts(row.get("aliases"), "aliases"))
            for row in _rows(data["entities"], "entities")
        )
        steps = tuple(
            SubQuestion(
                *(checked.text(row.get(key), f"question: steps.{key}") for key in ("question", "answer", "passage_id"))
            )
            for row in _rows(data["steps"], "steps")
        )
        edges = tuple(_edge(row) for row in checked.items(data["edges"], "question: edges", MAX_ITEMS))
        return cls(
            **texts,
            answers=_texts(data["answers"], "answers"),
            entities=entities,
            edges=edges,
            steps=steps,
            supporting=_texts(data["supporting"], "supporting"),
            construction_entities=_texts(data.get("construction_entities", ()), "construction_entities"),
        )


def _rows(value: Any, name: str) -> Sequence[Mapping[str, Any]]:
    rows = checked.items(value, f"question: {name}", MAX_ITEMS)
    if not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"question: {name} must be a list of objects")
    return rows


def _texts(value: Any, name: str) -> tuple[str, ...]:
    return checked.texts(value, f"question: {name}", MAX_ITEMS)


def _edge(value: Any) -> tuple[str, str, str]:
    edge = _texts(value, "edges")
    if len(edge) != 3:
        raise DataError(f"question: an edge is (subject, relation, object), got {short_repr(value)}")
    return edge[0], edge[1], edge[2]


def answer_node_of(names: Sequence[str], answers: Sequence[str]) -> str:
    """The entity that is an answer: equal as text, or else token by token; "" if there is none."""
    if same := next((name for name in names if name in answers), ""):
        return same
    answer_tokens = [phrase_tokens(answer) for answer in answers]
    return next((name for name in names if (tokens := phrase_tokens(name)) and tokens in answer_tokens), "")


def question_task(question: Question) -> Task:
    """The task of a question. Canonical id: the same evidence triples (or, without any, the same text and answers)."""
    content = question.to_json()
    identity = {key: value for key, value in content.items() if key != "construction_entities"}
    chain = sorted(content["edges"]) or [question.text, *question.answers]
    return Task(content_id("wikisearch1", identity), content_id("wikisearch1", chain), content)
