"""``hindsight:DIR``: log-probability of every action given its state and the final state of its rollout (HCAPO).

The paper conditions on the state before the action and on the final state. Its prompt is not known: the wording here is ours,
and a setting. With ``compare`` the log-probability without the final state is written too, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.train.annotate.base import AnnotationError, Annotations, Provenance, TurnAnnotator
from creditflow.train.annotate.histories import completion_text
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.annotate.scoring import Scored, encoded, open_scorer, scored_logprobs
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["HindsightAnnotator", "make"]

DEFAULTS: dict[str, Any] = {
    "final": "text",
    "hindsight_prefix": "In the end:\n",
    "action_prefix": "Action: ",
    "scored": "action",
    "compare": False,
    "batch_tokens": 16384,
}
PARAMETERS = ("final", "hindsight_prefix", "action_prefix", "scored", "compare")
FINAL_STATES = ("text", "key", "observation")


class HindsightAnnotator(TurnAnnotator):
    """Writes ``logp.hindsight``, the mean log p of the action's tokens; with ``compare`` also ``logp.action``.

    The model reads the question of the task, if there is one, the observation before the action, ``hindsight_prefix`` with
    the final state, and ``action_prefix``. For ``logp.action`` the final state and its prefix are left out.

    Args:
        model, tokenizer: a causal language model.
        provenance: provenance of its values, with these parameters.
        final: the final state as "text" (its text key), its "key" (state key), or the last "observation" before an action.
        hindsight_prefix, action_prefix: texts before the final state and before the action (ours).
        scored: whether the "action" or the whole "response" is scored.
        compare: also score the action without the final state.
        batch_tokens: token budget of a forward pass.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        provenance: Provenance,
        *,
        final: str,
        hindsight_prefix: str,
        action_prefix: str,
        scored: str,
        compare: bool,
        batch_tokens: int,
    ) -> None:
        if final not in FINAL_STATES:
            raise unknown_name_error("setting final of annotator 'hindsight'", final, FINAL_STATES)
        if scored not in ("action", "response"):
            raise ConfigError(f"scored must be 'action' or 'response', got {short_repr(scored)}")
        self.provenance = provenance
        self.turn_names = ("logp.hindsight", "logp.action") if compare else ("logp.hindsight",)
        self._model, self._tokenizer, self._budget = model, tokenizer, batch_tokens
        self._final, self._scored = final, scored
        self._hindsight_prefix, self._action_prefix = hindsight_prefix, action_prefix

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a turn has no observation or action, a rollout has no final state, or a text is too long.
        """
        jobs = [job for group in groups for member in group.trajectories for job in self._jobs(group, member)]
        means = iter([float(logprobs.mean()) for logprobs in scored_logprobs(self._model, jobs, self._budget)])
        annotations = []
        for group in groups:
            for member in group.trajectories:
                shape = len(member.turns), len(self.turn_names)
                columns = np.array([next(means) for _ in range(shape[0] * shape[1])], np.float64).reshape(shape).T
                annotations.append(Annotations(dict(zip(self.turn_names, columns, strict=True))))
        return annotations

    def _jobs(self, group: Group, member: Trajectory) -> Iterator[Scored]:
        """For every turn, the action given the final state and, with ``compare``, the action without it."""
        question = group.task.get("question")
        asked = [self._encode(question + "\n")] if isinstance(question, str) else []
        for t, turn in enumerate(member.turns):
            where = f"trajectory {member.trajectory_id!r}, turn {t}"
            action = turn.action if self._scored == "action" else completion_text(turn)
            if not turn.observation or not action.strip():
                raise AnnotationError(
                    f"{where} was recorded without its observation or its {self._scored}; record texts"
                )
            state, scored = self._encode(turn.observation + "\n"), self._encode(action)
            seen = [*asked, state, self._encode(f"{self._hindsight_prefix}{self._final_state(member)}\n")]
            before = self._encode(self._action_prefix)
            yield Scored.end(np.concatenate([*seen, before]), scored, where)
            if len(self.turn_names) > 1:
                yield Scored.end(np.concatenate([*asked, state, before]), scored, where)

    def _final_state(self, member: Trajectory) -> str:
        last: Turn = member.turns[-1]
        texts = {"text": member.final_text_key, "key": member.final_state_key, "observation": last.observation}
        if not texts[self._final]:
            alternatives = ", ".join(f"--set final={name}" for name, text in texts.items() if text)
            raise AnnotationError(f"trajectory {member.trajectory_id!r} has no final {self._final}; use {alternatives}")
        return texts[self._final]

    def _encode(self, text: str) -> NDArray[np.int32]:
        return encoded(self._tokenizer, text)


def make(argument: str, context: Context) -> HindsightAnnotator:
    """The annotator ``hindsight:DIR``."""
    settings = settings_of("hindsight", context, DEFAULTS)
    model, tokenizer, provenance = open_scorer("hindsight", argument, context, settings, PARAMETERS)
    return HindsightAnnotator(model, tokenizer, provenance, **settings)
