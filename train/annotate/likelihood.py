"""``likelihood:DIR``: how likely a model finds the right answer after the history so far, turn by turn (TIPS, IGPO).

The answer's tokens are put behind the history's, never encoded together with them, so their places are known exactly.
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
from creditflow.train.annotate.base import AnnotationError, Annotations, Provenance, boundaries
from creditflow.train.annotate.digest import folder_digest
from creditflow.train.annotate.registry import Context, settings_of
from creditflow.train.rollout.replay import full_episode
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory

__all__ = ["LikelihoodAnnotator", "make"]

DEFAULTS: dict[str, Any] = {
    "history": "text",
    "cue": "\n<answer>",
    "close": "</answer>",
    "field": "answers",
    "which": "first",
    "batch_tokens": 16384,
}
PARAMETERS = ("history", "cue", "close", "field", "which")


class LikelihoodAnnotator:
    """Writes ``logp.answer``, Σ log p over the tokens of the answer, and ``logp.answer.mean``, the mean over them.

    Args:
        model, tokenizer: a causal language model.
        provenance: who that is, with these parameters.
        history: "text" reads observations and responses as text (any model); "tokens" puts the answer behind the very
            tokens of the rollout (the policy that made it, or one with the same tokenizer).
        cue: what stands between the history and the answer.
        close: what follows the answer, and is scored with it: without an end, every beginning of an answer is likely.
        field: of the task's payload, a text or a list of texts: the right answers.
        which: "first" answer of several, or the "best", the likeliest at each point.
        batch_tokens: of forward passes.
    """

    turn_names = ("logp.answer", "logp.answer.next", "logp.answer.mean", "logp.answer.mean.next")
    trajectory_names: tuple[str, ...] = ()
    token_names: tuple[str, ...] = ()

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        provenance: Provenance,
        *,
        history: str,
        cue: str,
        close: str,
        field: str,
        which: str,
        batch_tokens: int,
    ) -> None:
        if history not in ("text", "tokens") or which not in ("first", "best"):
            raise ConfigError(
                f"history is 'text' or 'tokens', which 'first' or 'best'; got {short_repr(history)}, {short_repr(which)}"
            )
        self.provenance = provenance
        self._model, self._tokenizer, self._budget = model, tokenizer, batch_tokens
        self._history, self._cue, self._close, self._field, self._which = history, cue, close, field, which
        self._limit = int(getattr(model.config, "max_position_embeddings", 0) or 0)

    def annotate(self, groups: Sequence[Group]) -> list[Annotations]:
        """One entry per trajectory.

        Raises:
            AnnotationError: a task without answers, a log without texts (or tokens), a history that is too long.
        """
        questions = [(group, i, self._answers(group)) for group in groups for i in range(len(group))]
        asked, owners = [], []
        for number, (group, i, answers) in enumerate(questions):
            for point, ids in enumerate(self._points(group, i)):
                for answer in answers:
                    asked.append((ids, answer, f"trajectory {group.trajectories[i].trajectory_id!r}, turn {point}"))
                    owners.append((number, point))
        found = self._score(asked)
        totals = [np.full(len(group.trajectories[i].turns) + 1, -np.inf) for group, i, _ in questions]
        means = [total.copy() for total in totals]
        for (number, point), (_, answer, _), total in zip(owners, asked, found, strict=True):
            if total / len(answer) > means[number][point]:  # of several answers the likeliest a token
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
        return [self._encode(text + self._close) for text in (texts[:1] if self._which == "first" else texts)]

    def _encode(self, text: str) -> NDArray[np.int32]:
        return np.asarray(self._tokenizer.encode(plain_text(text), add_special_tokens=False), np.int32)

    def _points(self, group: Group, index: int) -> Iterator[NDArray[np.int32]]:
        """The histories before each own turn and after the last, with the cue."""
        trajectory, cue = group.trajectories[index], self._encode(self._cue)
        histories = self._tokens(trajectory) if self._history == "tokens" else self._texts(group, index)
        for ids in histories:
            yield np.concatenate([ids, cue])

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

    def _score(self, asked: Sequence[tuple[NDArray[np.int32], NDArray[np.int32], str]]) -> list[float]:
        """Σ log p of every answer behind its history."""
        import torch

        from creditflow.train.policy.batching import batches_of
        from creditflow.train.policy.logprobs import token_logprobs
        from creditflow.train.policy.samples import Row

        rows = []
        for number, (history, answer, where) in enumerate(asked):
            n, m = len(history), len(answer)
            if not n:
                raise AnnotationError(f"{where}: there is no history and no cue to put an answer behind")
            if self._limit and n + m > self._limit:
                raise AnnotationError(f"{where}: history and answer are {n + m} tokens, the model takes {self._limit}")
            blank = np.zeros(m, np.float32)
            rows.append(
                Row(np.concatenate([history, answer]), np.arange(n, n + m), blank.astype(np.float64), blank,
                    np.zeros(m, np.int32), number)
            )  # fmt: skip
        out = [0.0] * len(rows)
        device = next(self._model.parameters()).device
        with torch.no_grad():
            for batch in batches_of(rows, self._budget, device):
                flat = token_logprobs(self._model, batch).logprob.double().cpu().numpy()
                cuts = np.cumsum([len(rows[i].target) for i in batch.rows])[:-1]
                for i, part in zip(batch.rows, np.split(flat, cuts), strict=True):
                    out[i] = float(part.sum())
        return out


def make(argument: str, context: Context) -> LikelihoodAnnotator:
    """The annotator ``likelihood:DIR``."""
    settings = settings_of("likelihood", context, DEFAULTS)
    require_torch()
    from creditflow.agents.language_model.pretrained import open_pretrained
    from creditflow.train.policy.logprobs import check_model

    model, tokenizer = open_pretrained(argument, device=context.device)
    check_model(model)
    who = Provenance(
        "likelihood", 1, json.loads(json.dumps({k: settings[k] for k in PARAMETERS})), folder_digest(argument)
    )
    return LikelihoodAnnotator(model.eval(), tokenizer, who, **settings)
