"""``teacher:DIR``: how much more likely a skill's text before the prompt makes the tokens of every turn (AgentOPSD).

Teacher and student have the same weights; the teacher reads the skill's text before everything else. The paper's skills are
not public: the text is a setting, or a field of the task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.annotate.base import AnnotationError, Annotations, Provenance, TurnAnnotator
from creditflow.train.annotate.histories import completion_text, text_histories
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.scoring import Scored, encoded, open_scorer, scored_logprobs
from creditflow.wrappers.records.group import Group

__all__ = ["TeacherAnnotator", "make"]

NAME = "logp.teacher.gap"
DEFAULTS: dict[str, Any] = {"skill": "", "field": "skill", "history": "tokens", "batch_tokens": 16384}
PARAMETERS = ("skill", "field", "history")
Ids = NDArray[np.int32]


class TeacherAnnotator(TurnAnnotator):
    """Writes ``logp.teacher.gap``, the sum of log π(token | skill, history) − log π(token | history) over a turn's tokens.

    Args:
        model, tokenizer: a causal language model, the weights of the policy that made the log.
        provenance: provenance of its values, with these parameters.
        skill: the skill's text; with "" it is read from the task.
        field: field of the task's payload with the skill's text.
        history: "tokens" scores the tokens that were sampled, "text" the recorded texts, encoded again (for any model).
        batch_tokens: token budget of a forward pass.
    """

    turn_names = (NAME,)

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        provenance: Provenance,
        *,
        skill: str,
        field: str,
        history: str,
        batch_tokens: int,
    ) -> None:
        if history not in ("text", "tokens"):
            raise ConfigError(f"history must be 'text' or 'tokens', got {short_repr(history)}")
        self.provenance = provenance
        self._model, self._tokenizer, self._budget = model, tokenizer, batch_tokens
        self._skill, self._field, self._history = skill, field, history

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: there is no skill, the log has no tokens (or texts), or a history is too long.
        """
        jobs, counts = list[Scored](), list[int]()
        for group in groups:
            skill = self._skill_of(group)
            for index, member in enumerate(group.trajectories):
                for t, (ids, target) in enumerate(self._turns(group, index)):
                    where = f"trajectory {member.trajectory_id!r}, turn {t}"
                    jobs.append(Scored(np.concatenate([skill, ids]), target + len(skill), where))
                    jobs.append(Scored(ids, target, where))
                counts.append(len(member.turns))
        sums = [float(logprobs.sum()) for logprobs in scored_logprobs(self._model, jobs, self._budget)]
        gaps = np.array(sums[::2]) - np.array(sums[1::2])
        return (
            [Annotations({NAME: of_member}) for of_member in np.split(gaps, np.cumsum(counts)[:-1])] if counts else []
        )

    def _skill_of(self, group: Group) -> Ids:
        text = self._skill or group.task.get(self._field)
        if not isinstance(text, str) or not text.strip():
            raise AnnotationError(
                f"group {group.group_id!r}: its task has no skill under {self._field!r}; give the text with --set "
                "skill=TEXT, or name the field with --set field=NAME"
            )
        return self._encode(text + "\n")

    def _turns(self, group: Group, index: int) -> Iterator[tuple[Ids, NDArray[np.int64]]]:
        """For every own turn the tokens up to its end, and the positions of those that the model wrote in it."""
        member = group.trajectories[index]
        if self._history == "text":
            written = [self._encode(completion_text(turn)) for turn in member.turns]
            for history, ids in zip(text_histories(group, index, self._encode), written, strict=False):  # T + 1 and T
                yield np.concatenate([history, ids]), np.arange(len(history), len(history) + len(ids))
            return
        if member.tokens is None:
            if member.turns:
                raise AnnotationError(f"trajectory {member.trajectory_id!r} has no tokens; use --set history=text")
            return
        tokens = member.tokens
        for t, sampled in enumerate(tokens.written()):
            start, stop = tokens.turn_offsets[t : t + 2]
            if tokens.prompts:
                prompt = tokens.prompts[t]
                yield np.concatenate([prompt, tokens.ids[start:stop]]), len(prompt) + sampled - start
            else:
                yield tokens.ids[:stop], sampled

    def _encode(self, text: str) -> Ids:
        return encoded(self._tokenizer, text)


def make(argument: str, context: Context) -> TeacherAnnotator:
    """The annotator ``teacher:DIR``."""
    settings = settings_of("teacher", context, DEFAULTS)
    model, tokenizer, provenance = open_scorer("teacher", argument, context, settings, PARAMETERS)
    return TeacherAnnotator(model, tokenizer, provenance, **settings)
