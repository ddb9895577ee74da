"""``likelihood:DIR``: log-likelihood of the reference answer after the history so far, turn by turn (IGPO).

The answer's tokens are appended to the history's, never encoded together with them, so their positions are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
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

PREFIX, SUFFIX = "\n<answer>", "</answer>"  # without an end, every prefix of an answer is likely


class LikelihoodAnnotator(TurnAnnotator):
    """Writes ``logp.answer.mean``, the mean log p over the tokens of the answer.

    Args:
        model, tokenizer: a causal language model.
        provenance: provenance of its values, with these parameters.
        history: "text" encodes observations and responses as text (any model); "tokens" appends the answer to the tokens
            of the rollout (the policy that sampled it, or a model with the same tokenizer).
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
        batch_tokens: int,
    ) -> None:
        if history not in ("text", "tokens"):
            raise ConfigError(f"history must be 'text' or 'tokens', got {short_repr(history)}")
        self.provenance = provenance
        self._model, self._tokenizer, self._budget, self._history = model, tokenizer, batch_tokens, history

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a task without answers, a log without texts (or tokens), a history that is too long.
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
        """The histories before each own turn and after the last, with the answer prefix."""
        trajectory, prefix = group.trajectories[index], self._encode(PREFIX)
        histories = (
            token_histories(trajectory) if self._history == "tokens" else text_histories(group, index, self._encode)
        )
        for ids in histories:
            yield np.concatenate([ids, prefix])


def make(argument: str, context: Context) -> LikelihoodAnnotator:
    """The annotator ``likelihood:DIR``."""
    settings = settings_of("likelihood", context, {"history": "text", "batch_tokens": 16384})
    about = {"history": settings["history"], "prefix": PREFIX, "suffix": SUFFIX}
    model, tokenizer, provenance = open_scorer("likelihood", argument, context, about)
    return LikelihoodAnnotator(model, tokenizer, provenance, **settings)
