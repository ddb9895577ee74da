"""Published question files in their authors' formats (or those of collections that repack them), parsed to ``Question``.

Formats: "2wiki", "musique", "hotpotqa", "popqa", "webshaper", "plain" (NQ, TriviaQA, Bamboogle, FRAMES: question and
answers), "native" (our own), and those of sets for browsing agents (below). "auto" recognises the format of every row by its
keys. Files are JSON lines, a JSON list, or CSV with a header; gzip or not. A file is read once per process: every environment
of a group opens the same one.

Sets for browsing agents are recognised by the path of the published file. The first three are published so that no crawler reads their texts by accident: each is base64 of the UTF-8 text, XORed with a
key that stands in the row's ``canary``. They are read as they are published, and nothing here stores them in the clear. Questions
of GAIA that come with an attached file are left out: no text environment shows it.

=============== ============================================= ================================================
format          columns                                       key
=============== ============================================= ================================================
browsecomp      problem, answer, problem_topic, canary        SHA-256 of the canary, repeated
browsecomp_zh   Question, Answer, Topic, canary               the same
xbench          id, prompt, answer, canary                    the canary itself, repeated
gaia            task_id, Question, Level, Final answer, …     none
=============== ============================================= ================================================
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.paths import checked_path
from creditflow.envs.reading.json_text import parse_json, read_json_rows
from creditflow.envs.reading.streams import read_text
from creditflow.envs.tasks import PanelRow, Task
from creditflow.envs.wikisearch.grading.scoring import normalises_to_nothing
from creditflow.envs.wikisearch.questions import Entity, Question, SubQuestion, answer_node_of, question_task

__all__ = [
    "BROWSE_SETS",
    "FORMATS",
    "browse_set_of",
    "file_rows",
    "has_attachment",
    "question_over",
    "read_question",
    "read_questions",
    "read_rows",
    "unlocked",
]

MAX_TABLE: Final = 2**28  # characters of a CSV file; BrowseComp's has 2.6 MB


def read_rows(path: str | Path) -> list[tuple[str, Any]]:
    """The rows of a question file: JSON lines, a JSON list, or CSV with a header (``.csv``, gzip or not).

    Raises:
        DataError: the file is malformed; names the row.
    """
    if not str(path).removesuffix(".gz").endswith(".csv"):
        return read_json_rows(path)
    text = read_text(path, MAX_TABLE).removeprefix("\ufeff")
    try:
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = [(f"{path}: row {number}", row) for number, row in enumerate(table, 1)]
    except csv.Error as error:
        raise DataError(f"{path}: not a table of comma-separated values: {error}") from error
    for where, row in rows:
        if None in row or None in row.values():
            raise DataError(f"{where}: the number of columns differs from that of the header")
    return rows


def unlocked(text: Any, key: bytes) -> str:
    """The text of a published cell.

    >>> unlocked("KAA=", b"key")
    'Ce'

    Raises:
        DataError: it is not base64, or the key is not its key.
    """
    try:
        data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
        return (data ^ np.resize(np.frombuffer(key, np.uint8), len(data))).tobytes().decode("utf-8")
    except (TypeError, ValueError) as error:  # UnicodeDecodeError too
        raise DataError(
            f"a cell cannot be read with the key of its row, got {short_repr(text)}: {type(error).__name__}"
        ) from error


def browse_set_of(row: Mapping[str, Any]) -> str:
    """The format of a row by its columns; "" for another."""
    for name, (columns, _) in BROWSE_SETS.items():
        if columns <= set(row):
            return name
    return ""


def has_attachment(row: Any) -> bool:
    """Whether a row of GAIA comes with a file that the question is about."""
    return isinstance(row, Mapping) and browse_set_of(row) == "gaia" and bool(row.get("file_name"))


def _canary(row: Mapping[str, Any]) -> bytes:
    canary = row["canary"]
    if not isinstance(canary, str) or not canary:
        raise DataError(f"expected the row's key under 'canary', got {short_repr(canary)}")
    return canary.encode()


def _digest(row: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(_canary(row)).digest()


def _locked(question: str, answer: str, kind: str = "", named: str = "", key: Any = _digest) -> Any:
    """What reads a row whose texts are under these names, encrypted; ``named`` holds the question's id."""

    def read(row: Mapping[str, Any], fallback: str) -> Question:
        secret = key(row)
        name = str(row.get(named) or fallback) if named else fallback
        topic = row.get(kind, "") if kind else ""  # a CSV file may have a column without a name
        return _browse_question(name, unlocked(row[question], secret), unlocked(row[answer], secret), topic)

    return read


def _gaia(row: Mapping[str, Any], fallback: str) -> Question:
    value = row["Final answer"]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"'Final answer' is a text or a number, got {short_repr(value)}")
    answer = str(value).strip()
    if answer == "?":
        raise DataError("GAIA does not publish the answers of its test split; use its validation split")
    return _browse_question(
        str(row.get("task_id") or fallback), row["Question"], answer, f"level {row.get('Level', '')}".strip()
    )


def _browse_question(name: str, text: Any, answer: str, kind: Any) -> Question:
    if not isinstance(text, str) or not answer.strip():
        raise DataError(f"a question is a text with an answer, got {short_repr(text)} and {short_repr(answer)}")
    return Question(id=name, text=text.strip(), answers=(answer.strip(),), kind=str(kind))


BROWSE_SETS: Final[Mapping[str, tuple[frozenset[str], Any]]] = {
    "browsecomp": (frozenset({"problem", "answer", "canary"}), _locked("problem", "answer", "problem_topic")),
    "browsecomp_zh": (frozenset({"Question", "Answer", "canary"}), _locked("Question", "Answer", "Topic")),
    "xbench": (frozenset({"prompt", "answer", "canary"}), _locked("prompt", "answer", named="id", key=_canary)),
    "gaia": (frozenset({"Question", "Final answer", "file_name"}), _gaia),
}
"""Formats: the columns by which a row is recognised, and the function that reads it."""


Row = Mapping[str, Any]
Triples = Sequence[tuple[str, str, str]]


def read_questions(path: str | Path, *, file_format: str = "auto") -> list[Question]:
    """All questions of a file.

    Args:
        path: JSON lines, a JSON list, or CSV with a header; ``.gz`` or plain.
        file_format: a format, or "auto".

    Raises:
        ConfigError: an unknown format.
        DataError: the file or a row is malformed; names the row.

    Warns:
        UserWarning: golden answers that are articles or punctuation alone.
    """
    if file_format not in ("auto", *FORMATS):
        raise unknown_name_error("question format", file_format, ["auto", *FORMATS])
    questions = []
    for number, (where, row) in enumerate(read_rows(path), 1):
        if has_attachment(row):
            continue
        try:
            questions.append(read_question(row, file_format, fallback_id=str(number)))
        except (DataError, ConfigError) as error:
            raise DataError(f"{where}: {error}") from error
    _warn_of_bare_answers(path, questions)
    if not questions:
        raise DataError(f"{path} contains no questions")
    return questions


def _warn_of_bare_answers(path: str | Path, questions: Sequence[Question]) -> None:
    """Warn of golden answers of which the usual normalisation leaves nothing."""
    bare = [
        (question.id, answer) for question in questions for answer in question.answers if normalises_to_nothing(answer)
    ]
    if bare:
        examples = ", ".join(f"{short_repr(answer)} of question {short_repr(name)}" for name, answer in bare[:3])
        warnings.warn(
            f"{path}: {len(bare)} golden answers are articles or punctuation alone ({examples}), of which the usual normalisation "
            "leaves nothing; they are compared as they are written",
            stacklevel=3,
        )


def read_question(row: Any, file_format: str = "auto", *, fallback_id: str = "") -> Question:
    """One question from a row of a file.

    Raises:
        DataError: a missing or malformed key.
    """
    if not isinstance(row, Mapping):
        raise DataError(f"a question must be a JSON object, got {short_repr(row)}")
    try:
        return FORMATS[_format_of(row) if file_format == "auto" else file_format](row, fallback_id)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"not a question of the format {file_format!r}: {error!r}; keys: {sorted(map(str, row))[:12]}"
        ) from error


def _format_of(row: Row) -> str:
    if "version" in row and "steps" in row:
        return "native"
    if "formalization" in row:
        return "webshaper"
    if "decomposition" in row or "question_decomposition" in row:
        return "musique"
    if "evidences" in row:
        return "2wiki"
    if "supporting_facts" in row:
        return "hotpotqa"
    if browse := browse_set_of(row):
        return browse
    return "popqa" if "triple" in row or {"subj", "prop", "obj"} <= set(row) else "plain"


# -- what the formats share -------------------------------------------------------------------------------------------
def _id(row: Row, fallback: str) -> str:
    value = row.get("id", row.get("_id", row.get("question_id", fallback)))
    return str(value)


def _answers(row: Row) -> tuple[str, ...]:
    """``answers``, ``golden_answers``, ``possible_answers``; or ``answer`` (text, list, or TriviaQA's object) with aliases."""
    candidates: list[Any] = []
    for key in ("answers", "golden_answers", "possible_answers", "answer", "answer_aliases"):
        value = row.get(key)
        if key == "possible_answers" and isinstance(value, str):
            value = parse_json(value, where="possible_answers")
        if isinstance(value, Mapping):
            candidates += [value.get("value"), *value.get("aliases", [])]
        elif isinstance(value, str | int | float):
            candidates.append(str(value))
        elif isinstance(value, list | tuple):
            candidates += value
    texts = [str(value) if isinstance(value, int | float) else value for value in candidates]
    answers = tuple(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))
    if not answers:
        raise DataError("a question needs an answer under 'answers', 'golden_answers' or 'answer'")
    return answers


def _text(row: Row) -> str:
    text = row.get("question", row.get("Question", row.get("text")))
    if not isinstance(text, str):
        raise DataError("a question needs its text under 'question'")
    return text


def _supporting(row: Row) -> tuple[str, ...]:
    """Ids of golden passages where the row has them, else titles."""
    if "gold_passage_ids" in row:
        return tuple(dict.fromkeys(map(str, row["gold_passage_ids"])))
    facts = row.get("supporting_facts", [])
    titles = facts["title"] if isinstance(facts, Mapping) else [fact[0] for fact in facts]
    return tuple(dict.fromkeys(map(str, titles)))


def _question(
    row: Row, fallback: str, triples: Triples = (), names: Iterable[str] = (), node: str = "", **more: Any
) -> Question:
    """A question from the parts of a format; ``node`` is the answer's node, where the format names it."""
    answers = _answers(row)
    nodes = list(dict.fromkeys([*(name for s, _, o in triples for name in (s, o)), *names]))
    node = node or answer_node_of(nodes, answers)
    entities = tuple(Entity(name, tuple(a for a in answers if a != name) if name == node else ()) for name in nodes)
    return Question(
        id=_id(row, fallback),
        text=_text(row),
        answers=answers,
        kind=str(row.get("type", "")),
        entities=entities,
        edges=tuple(dict.fromkeys(triples)),
        answer_node=node,
        **more,
    )


# -- the formats ------------------------------------------------------------------------------------------------------
def _two_wiki(row: Row, fallback: str) -> Question:
    triples = [(str(s), str(r), str(o)) for s, r, o in row["evidences"]]
    return _question(row, fallback, triples, supporting=_supporting(row))


def _hotpot(row: Row, fallback: str) -> Question:
    return _question(row, fallback, supporting=_supporting(row))


_REFERENCE: Final = re.compile(r"#(\d+)")


def _musique(row: Row, fallback: str) -> Question:
    """Edges lead from each sub-answer that a step refers to, to the step's own; a first step's from its page's title."""
    steps: list[SubQuestion] = []
    triples: list[tuple[str, str, str]] = []
    paragraphs = {p.get("idx"): p for p in row.get("paragraphs", []) if isinstance(p, Mapping)}
    for step in row.get("decomposition", row.get("question_decomposition")):
        question = str(step.get("sub_question", step.get("question")))
        answer = str(step.get("sub_answer", step.get("answer")))
        paragraph = paragraphs.get(step.get("paragraph_support_idx"), {})
        title = str(step.get("support_title", paragraph.get("title", "")))
        sources = [steps[int(k) - 1].answer for k in _REFERENCE.findall(question) if 0 < int(k) <= len(steps)]
        relation = question.rpartition(">>")[2].strip() if ">>" in question else ""
        starts = sources or ([title] if title else [])
        triples += [(source, relation, answer) for source in starts if source != answer]
        steps.append(SubQuestion(question, answer, str(step.get("support_passage_id", title))))
    supporting = _supporting(row) if "gold_passage_ids" in row else tuple(dict.fromkeys(s.passage_id for s in steps))
    names = [step.answer for step in steps]
    return _question(
        row, fallback, triples, names, names[-1], steps=tuple(steps), supporting=tuple(filter(None, supporting))
    )


def _popqa(row: Row, fallback: str) -> Question:
    triple = row.get("triple") or (row["subj"], row["prop"], row["obj"])
    subject, relation, obj = map(str, triple)
    return _question(row, fallback, [(subject, relation, obj)])


def _webshaper(row: Row, fallback: str) -> Question:
    """Triples over constants ``C@x``, variables ``V@X`` and the answer "?"; "&" joins several of them in one row.

    A row of another length makes several statements about one subject: every later term is an object, related by the
    text before it; a row without such a term only describes its subject and gives no edge.
    """
    answer = _answers(row)[0]
    triples = []
    for triple in row["formalization"]:
        if not isinstance(triple, list) or len(triple) < 2 or not all(isinstance(text, str) for text in triple):
            raise DataError(f"a row of a formalization is a list of at least two texts, got {short_repr(triple)}")
        subject, *rest = triple
        if len(rest) == 2:
            relations, objects = rest[0].split(" & "), rest[1].split(" & ")
            if len(relations) != len(objects):
                relations, objects = rest[:1], rest[1:]
        else:
            terms = [i for i, text in enumerate(rest) if text.startswith(("V@", "C@")) or text == "?"]
            relations, objects = [rest[i - 1] if i else "" for i in terms], [rest[i] for i in terms]
        for relation, target in zip(relations, objects, strict=True):
            ends = _term(subject, answer), _term(target, answer)
            if ends[0] != ends[1]:
                triples.append((ends[0], relation.strip(), ends[1]))
    return _question(row, fallback, triples)


def _term(text: str, answer: str) -> str:
    text = text.strip()
    if text == "?":
        return answer
    return text[2:].replace("_", " ").strip() if text.startswith("C@") else text


def _plain(row: Row, fallback: str) -> Question:
    return _question(row, fallback)


FORMATS: Final[Mapping[str, Callable[[Row, str], Question]]] = {
    "2wiki": _two_wiki,
    "musique": _musique,
    "hotpotqa": _hotpot,
    "popqa": _popqa,
    "webshaper": _webshaper,
    "plain": _plain,
    "native": lambda row, _: Question.from_json(row),
    **{name: read for name, (_, read) in BROWSE_SETS.items()},
}


def question_over(question: Question, digest: str) -> Task:
    """The task of a question over the corpus with this digest ("" for an unknown one).

    Raises:
        DataError: the question is about another corpus.
    """
    if digest and question.corpus not in ("", digest):
        raise DataError(f"the question is about the corpus {question.corpus[:40]!r}, this source has {digest!r}")
    return question_task(question)


def file_rows(path: Any, digest: str, file_format: str) -> tuple[PanelRow, ...]:
    """The different questions of a file, in order, over the corpus with this digest; read again once the file has changed.

    Raises:
        ConfigError: the path or the format is not a text, or the format is unknown.
        DataError: the file is malformed, or a question is about another corpus.
    """
    file = checked_path("questions", path)
    if not isinstance(file_format, str):
        raise ConfigError(f"file_format must be a text, got {short_repr(file_format)}")
    try:
        status = file.stat()
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError:
        stamp = (0, 0, 0)  # reading it says what is wrong
    return _rows(file, stamp, digest, file_format)


@lru_cache(maxsize=4)
def _rows(file: Path, stamp: tuple[int, int, int], digest: str, file_format: str) -> tuple[PanelRow, ...]:
    del stamp
    rows: dict[str, PanelRow] = {}  # a question that a file holds twice is one task
    for question in read_questions(file, file_format=file_format):
        task = question_over(replace(question, corpus=question.corpus or digest), digest)
        rows[task.task_id] = PanelRow(task.task_id, "all", task.content, {"kind": question.kind})
    return tuple(rows.values())
