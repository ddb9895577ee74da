"""``likelihood:DIR``: log-likelihood of the reference answer after the history so far, turn by turn (IGPO).

The answer's tokens are appended to the history's, never encoded together with them, so their positions are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.annotate.base import (
    AnnotationError,
    Annotations,
    Provenance,
    TurnAnnotator,
    boundaries,
    members_of,
)
from creditflow.train.annotate.histories import text_histories, token_histories
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.scoring import Scored, encoded, open_scorer, scored_logprobs
from creditflow.wrappers.records.group import Group

__all__ = ["LikelihoodAnnotator", "make"]

DEFAULTS: dict[str, Any] = {
    "history": "text",
    "answer_prefix": "\n<answer>",
    "answer_suffix": "</answer>",
    "field": "answers",
    "answer_choice": "first",
    "batch_tokens": 16384,
}
PARAMETERS = ("history", "answer_prefix", "answer_suffix", "field", "answer_choice")


class LikelihoodAnnotator(TurnAnnotator):
    """Writes ``logp.answer.mean``, the mean log p over the tokens of the answer.

    Args:
        model, tokenizer: a causal language model.
        provenance: provenance of its values, with these parameters.
        history: "text" encodes observations and responses as text (any model); "tokens" appends the answer to the tokens
            of the rollout (the policy that sampled it, or a model with the same tokenizer).
        answer_prefix: text between the history and the answer.
        answer_suffix: text after the answer, scored with it: without an end, every prefix of an answer is likely.
        field: field of the task's payload with the reference answer, or a list of them.
        answer_choice: the "first" of several answers, or the "best", the most likely one at each point.
        batch_tokens: token budget of a forward pass.
    """

    turn_names = ("logp.answer.mean", "logp.answer.mean.next")

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        provenance: Provenance,
        *,
        history: str,
        answer_prefix: str,
        answer_suffix: str,
        field: str,
        answer_choice: str,
        batch_tokens: int,
    ) -> None:
        if history not in ("text", "tokens") or answer_choice not in ("first", "best"):
            raise ConfigError(
                "history must be 'text' or 'tokens' and answer_choice 'first' or 'best', got "
                f"{short_repr(history)}, {short_repr(answer_choice)}"
            )
        self.provenance = provenance
        self._model, self._tokenizer, self._budget = model, tokenizer, batch_tokens
        self._history, self._field, self._answer_choice = history, field, answer_choice
        self._answer_prefix, self._answer_suffix = answer_prefix, answer_suffix

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a task without answers, a log without texts (or tokens), a history that is too long.
        """
        questions = [(group, i, self._answers(group)) for group, i in members_of(groups)]
        jobs, owners = [], []
        for number, (group, i, answers) in enumerate(questions):
            for point, ids in enumerate(self._points(group, i)):
                for answer in answers:
                    where = f"trajectory {group.trajectories[i].trajectory_id!r}, turn {point}"
                    jobs.append(Scored.end(ids, answer, where))
                    owners.append((number, point))
        scored = scored_logprobs(self._model, jobs, self._budget)
        means = [np.full(len(group.trajectories[i].turns) + 1, -np.inf) for group, i, _ in questions]
        for (number, point), logprobs in zip(owners, scored, strict=True):  # of several answers the likeliest counts
            means[number][point] = max(means[number][point], float(logprobs.mean()))
        return [Annotations(boundaries("logp.answer.mean", mean)) for mean in means]

    def _answers(self, group: Group) -> list[NDArray[np.int32]]:
        answers = group.task.get(self._field)
        answers = [answers] if isinstance(answers, str) else answers
        texts = list(answers) if isinstance(answers, list | tuple) else []
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise AnnotationError(
                f"group {group.group_id!r}: its task has no answers under {self._field!r} (fields: "
                f"{', '.join(sorted(group.task)) or 'none'}); name the field with --set field=NAME"
            )
        return [
            self._encode(text + self._answer_suffix)
            for text in (texts[:1] if self._answer_choice == "first" else texts)
        ]

    def _encode(self, text: str) -> NDArray[np.int32]:
        return encoded(self._tokenizer, text)

    def _points(self, group: Group, index: int) -> Iterator[NDArray[np.int32]]:
        """The histories before each own turn and after the last, with the answer prefix."""
        trajectory, prefix = group.trajectories[index], self._encode(self._answer_prefix)
        histories = (
            token_histories(trajectory) if self._history == "tokens" else text_histories(group, index, self._encode)
        )
        for ids in histories:
            yield np.concatenate([ids, prefix])


def make(argument: str, context: Context) -> LikelihoodAnnotator:
    """The annotator ``likelihood:DIR``."""
    settings = settings_of("likelihood", context, DEFAULTS)
    model, tokenizer, provenance = open_scorer("likelihood", argument, context, settings, PARAMETERS)
    return LikelihoodAnnotator(model, tokenizer, provenance, **settings)
