"""``likelihood:DIR``: log-likelihood of the reference answer after the history so far, turn by turn (IGPO).

A history is the text of the question, the observations and the completions. The answer's tokens are appended to the history's, never encoded together with them, so their positions are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.train.annotate.base import (
    AnnotationError,
    Annotations,
    Provenance,
    TurnAnnotator,
    boundaries,
    members_of,
)
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.scoring import Scored, encoded, open_scorer, scored_logprobs
from creditflow.train.rollout.replay import full_episode
from creditflow.wrappers.records.group import Group

__all__ = ["LikelihoodAnnotator", "make"]

PREFIX, SUFFIX = "\n<answer>", "</answer>"  # without an end, every prefix of an answer is likely


class LikelihoodAnnotator(TurnAnnotator):
    """Writes ``logp.answer.mean``, the mean log p over the tokens of the answer.

    Args:
        model, tokenizer: a causal language model.
        provenance: provenance of its values, with these parameters.
        batch_tokens: token budget of a forward pass.
    """

    turn_names = ("logp.answer.mean", "logp.answer.mean.next")

    def __init__(self, model: Any, tokenizer: Any, provenance: Provenance, *, batch_tokens: int) -> None:
        self.provenance = provenance
        self._model, self._tokenizer, self._budget = model, tokenizer, batch_tokens

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a task without answers, a log without texts, a history that is too long.
        """
        members = members_of(groups)
        jobs = list[Scored]()
        for group, i in members:
            answer = self._answer(group)
            for point, ids in enumerate(self._points(group, i)):
                where = f"trajectory {group.trajectories[i].trajectory_id!r}, turn {point}"
                jobs.append(Scored.end(ids, answer, where))
        means = [float(logprobs.mean()) for logprobs in scored_logprobs(self._model, jobs, self._budget)]
        offsets = np.cumsum([0, *(len(group.trajectories[i].turns) + 1 for group, i in members)]).tolist()
        of_members = [np.array(means[start:stop]) for start, stop in pairwise(offsets)]
        return [Annotations(boundaries("logp.answer.mean", of_member)) for of_member in of_members]

    def _answer(self, group: Group) -> NDArray[np.int32]:
        """The tokens of the task's answer, the first of several."""
        answers = group.task.get("answers")
        answers = [answers] if isinstance(answers, str) else answers
        texts = list(answers) if isinstance(answers, list | tuple) else []
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise AnnotationError(
                f"group {group.group_id!r}: its task has no answers under 'answers' (fields: "
                f"{', '.join(sorted(group.task)) or 'none'})"
            )
        return self._encode(texts[0] + SUFFIX)

    def _encode(self, text: str) -> NDArray[np.int32]:
        return encoded(self._tokenizer, text)

    def _points(self, group: Group, index: int) -> Iterator[NDArray[np.int32]]:
        """The T + 1 histories before each own turn and after the last, with the answer prefix."""
        trajectory, turns = group.trajectories[index], full_episode(group, index)
        if any(not turn.observation and not turn.response and not turn.thought for turn in turns):
            raise AnnotationError(f"trajectory {trajectory.trajectory_id!r} was recorded without texts; record them")
        prefix, question = self._encode(PREFIX), group.task.get("question")
        history = [self._encode(question + "\n")] if isinstance(question, str) else []
        first = len(turns) - len(trajectory.turns)
        for t, turn in enumerate(turns):
            history.append(self._encode(turn.observation + "\n"))
            if t >= first:
                yield np.concatenate([*history, prefix])
            completion = turn.response or f"{turn.thought}\n{turn.action}"
            history.append(self._encode(completion + "\n"))
        yield np.concatenate([*history, prefix])


def make(argument: str, context: Context) -> LikelihoodAnnotator:
    """The annotator ``likelihood:DIR``."""
    settings = settings_of("likelihood", context, {"batch_tokens": 16384})
    about = {"history": "text", "prefix": PREFIX, "suffix": SUFFIX}
    model, tokenizer, provenance = open_scorer("likelihood", argument, context, about)
    return LikelihoodAnnotator(model, tokenizer, provenance, **settings)
