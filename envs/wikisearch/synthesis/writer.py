"""A language model that words a question by its recipe, and verifies that each passage is needed to answer it.

The tree of the question stays its meaning: what the model writes is rejected if it drops a name, tells a hidden one, copies
a passage, or if the model itself does not find the answer with all passages, finds it without one of them, or without
any. The model is thus judge of its own wording; what it does not notice stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from creditflow.envs.errors import DataError, short_repr
from creditflow.envs.http.chat import CachedChat, ChatQuestion
from creditflow.envs.http.client import JsonClient
from creditflow.envs.http.credentials import ApiKey
from creditflow.envs.reading.json_text import decode_json
from creditflow.envs.text.entity_matching import normalized_phrase, phrase_tokens
from creditflow.envs.wikisearch.grading.scoring import exact_match
from creditflow.envs.wikisearch.questions import Question
from creditflow.envs.wikisearch.retrieval.local import LocalRetriever
from creditflow.envs.wikisearch.synthesis import instructions
from creditflow.envs.wikisearch.synthesis.checks import wrong_text
from creditflow.envs.wikisearch.synthesis.graph import CorpusGraph
from creditflow.envs.wikisearch.synthesis.markup import without_markup
from creditflow.envs.wikisearch.synthesis.queries import Described, Link, Named, links_of, terms_of
from creditflow.envs.wikisearch.synthesis.walks import Candidate
from creditflow.envs.wikisearch.synthesis.wording import name_of, step_text, wording_of

__all__ = ["InvalidReplyError", "ModelWriter", "Written"]

MAX_REPLY: Final = 4_000  # characters of a reply
MAX_RESPONSE: Final = 2**20  # bytes of a response
MAX_PASSAGE: Final = 1_500  # characters of a passage in a request
COPIED: Final = 12  # words in a row that a question may not share with a passage
MAX_TOKENS: Final = 400
_OBJECT: Final = re.compile(r"\{.*\}", re.DOTALL)

Written = tuple[str, str, dict[str, Any]]


class InvalidReplyError(DataError):
    """A reply without the JSON object that the instruction asks for."""


def _parse(field: str, text: str) -> str:
    if len(text) > MAX_REPLY:
        raise InvalidReplyError(f"a reply of {len(text):,} characters; at most {MAX_REPLY:,} are read")
    match = _OBJECT.search(text)
    try:
        value = decode_json(match[0], locate=False) if match else None
    except ValueError:
        value = None
    answer = value.get(field) if isinstance(value, dict) else None
    if not isinstance(answer, str):
        raise InvalidReplyError(f'expected {{"{field}": "…"}}, got {short_repr(text, 80)}')
    return " ".join(answer.split())


class ModelWriter:
    """Words and verifies questions with a model on an OpenAI-compatible server. Thread-safe.

    Args:
        retriever: has the passages.
        url: base URL.
        model: name of the model there.
        key_variable: environment variable with the API key; "" for none.
        timeout: seconds for one request.
        max_attempts: attempts for one request.
    """

    def __init__(
        self, retriever: LocalRetriever, url: str, model: str, *, key_variable: str = "", timeout: float = 120.0,
        max_attempts: int = 3,
    ) -> None:  # fmt: skip
        self._retriever = retriever
        key = ApiKey.from_environment(key_variable) if key_variable else None
        client = JsonClient([url], timeout=timeout, max_attempts=max_attempts, max_bytes=MAX_RESPONSE, key=key)

        def chat(instruction: str, field: str = "question") -> CachedChat[str]:
            question = ChatQuestion[str](
                instruction=instruction, max_tokens=MAX_TOKENS, field=field, parse=partial(_parse, field),
                is_value=lambda value: type(value) is str, error=InvalidReplyError,
            )  # fmt: skip
            return CachedChat(url, model, question, client=client)

        self._walk, self._obfuscate = chat(instructions.WALK), chat(instructions.OBFUSCATE)
        self._inject, self._fuzz = chat(instructions.INJECT), chat(instructions.FUZZ)
        self._answer = chat(instructions.ANSWER, "answer")

    def __call__(self, graph: CorpusGraph, chosen: Candidate, question: Question) -> Written:
        """The text, the reason of a rejection or "", and figures.

        Raises:
            ServiceError: the server cannot be reached.
        """
        root = chosen.root
        if root is None:
            raise ValueError("a candidate without a tree has no wording")
        try:
            text = self._worded(graph, chosen.recipe, root)
            reason = wrong_text(graph, root, text) or self._wrong(root, text, question)
            return text, reason or self._unverified(text, question), {}
        except InvalidReplyError as error:
            return "", "invalid reply", {"reply": str(error)}

    def _worded(self, graph: CorpusGraph, recipe: str, root: Described) -> str:
        if recipe != "inject":
            chat = self._walk if recipe == "walk" else self._obfuscate
            return chat.ask(self._facts(graph, root))
        text = self._walk.ask(self._facts(graph, _chain_of(graph, root)))
        for term, link in links_of(root):
            if not link.forward:  # the chain names this thing
                fact = wording_of(graph, Described(term.node, (link,), term.word, term.years))
                name = name_of(graph, term.node)
                if normalized_phrase(name, text):
                    text = self._inject.ask({"question": text, "name": name, "fact": _statement(fact)})
        details = _vaguer(graph, root)
        return self._fuzz.ask({"question": text, "details": details}) if details else text

    def _facts(self, graph: CorpusGraph, root: Described) -> dict[str, Any]:
        named = [term.form for term in terms_of(root) if isinstance(term, Named)]
        hidden = [name_of(graph, term.node) for term in terms_of(root) if isinstance(term, Described)]
        facts = []
        for term, link in links_of(root):
            subject, obj = (link.other.node, term.node) if link.forward else (term.node, link.other.node)
            facts.append({
                "subject": name_of(graph, subject), "relation": link.relation.replace("_", " "),
                "object": name_of(graph, obj), "asks": step_text(graph, term, link), "passage": self._passage(link.row),
            })  # fmt: skip
        return {"facts": facts, "must_name": named, "must_not_name": hidden, "answer": name_of(graph, root.node)}

    def _passage(self, row: int) -> str:
        passage = self._retriever.corpus.passage(row)
        return f"{passage.title}: {without_markup(passage.text).text[:MAX_PASSAGE]}"

    def _wrong(self, root: Described, text: str, question: Question) -> str:
        """Why the text cannot stand for the tree."""
        named = [term.form for term in terms_of(root) if isinstance(term, Named)]
        if not all(normalized_phrase(name, text) for name in named):
            return "name dropped"
        if "?" not in text:
            return "no question"
        words = phrase_tokens(text)
        runs = {words[i : i + COPIED] for i in range(len(words) - COPIED + 1)}
        for passage in self._retriever.fetch(question.supporting):
            theirs = phrase_tokens(passage.contents)
            if any(theirs[i : i + COPIED] in runs for i in range(len(theirs) - COPIED + 1)):
                return "copied from a passage"
        return ""

    def _unverified(self, text: str, question: Question) -> str:
        """Whether the model's answers show that the passages suffice and that each is needed."""
        passages = [self._passage(row) for row in self._rows(question.supporting)]
        if not self._right(text, passages, question):
            return "not answered from the passages"
        if self._right(text, [], question):
            return "answered without passages"
        for left_out in range(len(passages)):
            if self._right(text, [*passages[:left_out], *passages[left_out + 1 :]], question):
                return "answered without a passage"
        return ""

    def _rows(self, ids: Sequence[str]) -> list[int]:
        return [row for name in ids if (row := self._retriever.corpus.row(name)) is not None]

    def _right(self, text: str, passages: list[str], question: Question) -> bool:
        return exact_match(self._answer.ask({"question": text, "passages": passages}), question.answers) == 1.0


def _chain_of(graph: CorpusGraph, root: Described) -> Described:
    """The part of a tree that forward links form from the root: below it the first thing described by its own links is named."""
    links = []
    for link in root.links:
        end = link.other
        if isinstance(end, Described) and all(inner.forward for inner in end.links):
            end = _chain_of(graph, end)
        else:
            end = Named(end.node, name_of(graph, end.node))
        links.append(Link(link.relation, link.forward, end, link.row))
    return Described(root.node, tuple(links), root.word, root.years)


def _statement(question: str) -> str:
    """The wording of a description, without its question: it is the answer to this."""
    return json.dumps({"it is the answer to": question}, ensure_ascii=False)


def _vaguer(graph: CorpusGraph, root: Described) -> list[dict[str, str]]:
    """Years of described things that a decade identifies too."""
    replacements = []
    for term in terms_of(root):
        year = graph.nodes[term.node].year
        if isinstance(term, Named) or term is root or term.years is None or year is None:
            continue
        if term.years[0] < term.years[1]:
            replacements.append({"precise": str(year), "vague": f"the {term.years[0]}s"})
    return replacements
