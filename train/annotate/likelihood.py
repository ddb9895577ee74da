"""``likelihood:DIR``: log-likelihood of the reference answer after the history so far, turn by turn (TIPS, IGPO).

The answer's tokens are appended to the history's, never encoded together with them, so their positions are exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.envs.text.plain_text import plain_text
from creditflow.train.annotate.base import AnnotationError, Annotations, Provenance, TurnAnnotator, boundaries
from creditflow.train.annotate.digest import folder_digest
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.rollout.replay import full_episode
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

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
    """Writes ``logp.answer``, Σ log p over the tokens of the answer, and ``logp.answer.mean``, the mean over them.

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

    turn_names = ("logp.answer", "logp.answer.next", "logp.answer.mean", "logp.answer.mean.next")

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
        self._limit = int(getattr(model.config, "max_position_embeddings", 0) or 0)

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a task without answers, a log without texts (or tokens), a history that is too long.
        """
        questions = [(group, i, self._answers(group)) for group in groups for i in range(len(group))]
        jobs, owners = [], []
        for number, (group, i, answers) in enumerate(questions):
            for point, ids in enumerate(self._points(group, i)):
                for answer in answers:
                    jobs.append((ids, answer, f"trajectory {group.trajectories[i].trajectory_id!r}, turn {point}"))
                    owners.append((number, point))
        sums = self._answer_logprobs(jobs)
        totals = [np.full(len(group.trajectories[i].turns) + 1, -np.inf) for group, i, _ in questions]
        means = [total.copy() for total in totals]
        for (number, point), (_, answer, _), total in zip(owners, jobs, sums, strict=True):
            if total / len(answer) > means[number][point]:  # the answer that is most likely per token
                totals[number][point], means[number][point] = total, total / len(answer)
        return [
            Annotations(boundaries("logp.answer", total) | boundaries("logp.answer.mean", mean))
            for total, mean in zip(totals, means, strict=True)
        ]

    def _answers(self, group: Group) -> list[NDArray[np.int32]]:
        given = group.task.get(self._field, [])
        texts = [given] if isinstance(given, str) else list(given)
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
        return np.asarray(self._tokenizer.encode(plain_text(text), add_special_tokens=False), np.int32)

    def _points(self, group: Group, index: int) -> Iterator[NDArray[np.int32]]:
        """The histories before each own turn and after the last, with the answer prefix."""
        trajectory, prefix = group.trajectories[index], self._encode(self._answer_prefix)
        histories = self._tokens(trajectory) if self._history == "tokens" else self._texts(group, index)
        for ids in histories:
            yield np.concatenate([ids, prefix])

    def _texts(self, group: Group, index: int) -> Iterator[NDArray[np.int32]]:
        turns = full_episode(group, index)
        if any(not turn.observation and not turn.response and not turn.thought for turn in turns):
            raise AnnotationError(
                f"trajectory {group.trajectories[index].trajectory_id!r} was recorded without texts; record them, or "
                "use --set history=tokens with the model that made the log"
            )
        question = group.task.get("question")
        parts = [self._encode(question + "\n")] if isinstance(question, str) else []
        first = len(turns) - len(group.trajectories[index].turns)
        for t, turn in enumerate(turns):
            parts.append(self._encode(turn.observation + "\n"))
            if t >= first:
                yield np.concatenate(parts)
            parts.append(self._encode((turn.response or f"{turn.thought}\n{turn.action}") + "\n"))
        yield np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def _tokens(self, trajectory: Trajectory) -> Iterator[NDArray[np.int32]]:
        tokens = trajectory.tokens
        if tokens is None:
            if trajectory.turns:
                raise AnnotationError(f"trajectory {trajectory.trajectory_id!r} has no tokens; use --set history=text")
            yield np.zeros(0, np.int32)
            return
        for t, (start, stop) in enumerate(zip(tokens.turn_offsets[:-1], tokens.turn_offsets[1:], strict=True)):
            if tokens.prompts:
                yield tokens.prompts[t]
            else:
                wrote = np.flatnonzero(tokens.mask[start:stop])
                yield tokens.ids[: start + (wrote[0] if len(wrote) else 0)]
        last = tokens.ids[tokens.turn_offsets[-2] :] if tokens.prompts else tokens.ids
        yield np.concatenate([tokens.prompts[-1], last]) if tokens.prompts else last

    def _answer_logprobs(self, jobs: Sequence[tuple[NDArray[np.int32], NDArray[np.int32], str]]) -> list[float]:
        """Σ log p of every answer after its history."""
        import torch

        from creditflow.train.policy.batching import batches_of, split_by_row
        from creditflow.train.policy.logprobs import token_logprobs
        from creditflow.train.policy.samples import Row

        rows = []
        for number, (history, answer, where) in enumerate(jobs):
            n, m = len(history), len(answer)
            if not n:
                raise AnnotationError(f"{where}: there is no history and no answer prefix before the answer")
            if self._limit and n + m > self._limit:
                raise AnnotationError(
                    f"{where}: history and answer are {n + m} tokens, the model takes at most {self._limit}"
                )
            blank = np.zeros(m, np.float32)
            rows.append(
                Row(np.concatenate([history, answer]), np.arange(n, n + m), blank.astype(np.float64), blank,
                    np.zeros(m, np.int32), number)
            )  # fmt: skip
        out = [0.0] * len(rows)
        device = next(self._model.parameters()).device
        with torch.no_grad():
            for batch in batches_of(rows, self._budget, device):
                for i, logprobs in split_by_row(token_logprobs(self._model, batch).logprob, batch, rows):
                    out[i] = float(logprobs.astype(np.float64).sum())
        return out


def make(argument: str, context: Context) -> LikelihoodAnnotator:
    """The annotator ``likelihood:DIR``."""
    settings = settings_of("likelihood", context, DEFAULTS)
    require_torch()
    from creditflow.agents.language_model.pretrained import open_pretrained
    from creditflow.train.policy.logprobs import check_model

    model, tokenizer = open_pretrained(argument, device=context.device)
    check_model(model)
    provenance = Provenance(
        "likelihood", 1, json.loads(json.dumps({k: settings[k] for k in PARAMETERS})), folder_digest(argument)
    )
    return LikelihoodAnnotator(model.eval(), tokenizer, provenance, **settings)
