"""The demonstrations of the warm-up: an agent that follows a question's relations, with faults worth unlearning.

A turn's thought names the relation and the entity that it reads in the last passage; the action searches for that entity or
answers with it. The passage is the one whose title was searched for; others that a search returns are distractors, whose facts a fault may follow.
The faults are random, but for one that is systematic: after two searches it mostly answers, so questions
of three hops mostly fail. Thoughts that name nothing, or everything in the passage, change no action: they are what a scheme
that rewards citations can reinforce. So are searches that are repeated, or go beyond the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from evidence.entity_learning.world import path_of

from creditflow.agents.backends.base import Completion
from creditflow.agents.base import Decision, View
from creditflow.agents.language_model.agent import Conversations
from creditflow.agents.language_model.parsing import make_dialect

_PASSAGE: Final = re.compile(r"^\[\d+\] (?P<title>[^:]+): (?:(?P=title)\. ?)?(?P<facts>.*)\.$", re.MULTILINE)
DIALECT: Final = "think"


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Probabilities of faults in a turn.

    Attributes:
        wrong: follow another fact of the passages.
        early: answer before the last hop; ``early_third`` after two searches of a question with three hops.
        repeat: search once more for what was just searched.
        beyond: search for the answer instead of giving it.
        silent, everything: a thought that names nothing; one that names all that the passage says.
    """

    wrong: float = 0.15
    early: float = 0.1
    early_third: float = 0.65
    repeat: float = 0.08
    beyond: float = 0.15
    silent: float = 0.2
    everything: float = 0.2


class Demonstrator:
    """Follows the relations of a question, with faults.

    Args:
        faults: their probabilities.
        conversations: encode the completions as a model's; without, turns have no tokens.
    """

    name = "demonstrator"

    def __init__(self, faults: Faults, conversations: Conversations | None = None) -> None:
        self.faults, self.conversations, self.dialect = faults, conversations, make_dialect(DIALECT)

    def act(self, views: Sequence[View]) -> list[Decision]:
        """Choose one action per view."""
        return [self._decide(view) for view in views]

    def _decide(self, view: View) -> Decision:
        thought, action = self._choose(view)
        response = self.dialect.write(action, thought)
        tokens = None
        if self.conversations is not None:
            ids = self.conversations.chat.encode_completion(response)
            tokens = self.conversations.record_completion(
                self.conversations.build_prompt(view), Completion(ids, np.zeros(len(ids), np.float32))
            )
        return Decision(action=action, thought=thought.strip(), response=response, tokens=tokens)

    def _choose(self, view: View) -> tuple[str, str]:
        """Thought and action of a turn."""
        faults, rng = self.faults, view.rng
        text = str(view.env.task.content["text"])
        path, start = path_of(text), text.rpartition(" of ")[2].removesuffix("?")
        searched = list(dict.fromkeys(turn.queries[0] for turn in view.turns if turn.queries))
        draws = rng.random(4)
        if not searched:
            return ("" if draws[0] < faults.silent else f" {start}"), f"search: {start}"
        if draws[1] < faults.repeat:
            return f" {searched[-1]}", f"search: {searched[-1]}"
        passages = read_passages(view.observation)
        asked = view.turns[-1].queries
        facts = passages.get(asked[0] if asked else "", next(iter(passages.values()), {}))
        hop = len(searched)  # the number of relations that can have been read
        wanted = path[hop - 1] if hop <= len(path) else ""
        if wanted not in facts or draws[2] < faults.wrong:
            right = (wanted, facts.get(wanted))
            others = sorted({fact for stated in passages.values() for fact in stated.items()} - {right})
            if not others:
                return "", f"answer: {searched[-1]}"
            wanted, found = others[int(rng.integers(len(others)))]
        else:
            found = facts[wanted]
        if hop > len(path):
            return "", f"answer: {searched[-1]}"
        early = faults.early_third if hop == 2 and len(path) == 3 else faults.early
        answers = draws[3] >= faults.beyond if hop == len(path) else draws[3] < early
        thought = f" {wanted} {found}"
        if draws[0] < faults.silent:
            thought = ""
        elif draws[0] < faults.silent + faults.everything:
            thought = "".join(f" {relation} {other}" for relation, other in facts.items())
        return thought, f"{'answer' if answers else 'search'}: {found}"


def read_passages(observation: str) -> dict[str, dict[str, str]]:
    """The relations that each passage of a result states, by its title, in the order of the result."""
    return {
        match["title"]: dict(part.split(" ", 1) for part in match["facts"].split("; ") if part)
        for match in _PASSAGE.finditer(observation)
    }


def read_passage(observation: str) -> dict[str, str]:
    """The relations that the first passage of a result states."""
    return next(iter(read_passages(observation).values()), {})
