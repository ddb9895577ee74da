"""Next-token logits that a policy version has already computed: short completions of prompts that recur need no model.

A windowed prompt is a function of the state, and episodes of a group, of several rounds of an evaluation and of recurring tasks visit the same
states. Sampling is unchanged: every completion has its own random numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.token_sampling import entropy_of, sample_tokens

__all__ = ["LONGEST", "Distributions"]

LONGEST: Final = (
    8  # tokens of a completion; longer ones hardly recur, and every token has a row of the vocabulary's size
)
MAX_BYTES: Final = 512 * 2**20


class Distributions:
    """Logits by the ids before them, of one policy version; the oldest are dropped beyond ``MAX_BYTES``."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, Any] = OrderedDict()

    def clear(self) -> None:
        """Forget all, because the weights have changed."""
        self._rows.clear()

    def store(self, ids: bytes, logits: Any) -> None:
        """Remember the logits (V,) after some ids."""
        if ids in self._rows:
            return
        self._rows[ids] = logits.clone()
        while len(self._rows) * logits.numel() * logits.element_size() > MAX_BYTES and len(self._rows) > 1:
            self._rows.popitem(last=False)

    def complete(
        self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
    ) -> list[Completion | None]:
        """The completions all of whose logits are known; None for the others."""
        sequences = [request.ids.tobytes() for request in requests]
        running = list(range(len(requests)))
        has_logits = dict.fromkeys(running, True)
        tokens: list[list[Any]] = [[] for _ in requests]
        for step in range(sampling.max_new_tokens):
            for row in running:
                has_logits[row] = sequences[row] in self._rows
            running = [row for row in running if has_logits[row]]
            if not running:
                break
            logits = torch.stack([self._rows[sequences[row]] for row in running])
            uniform = torch.tensor([requests[row].uniforms[step] for row in running], device=logits.device)
            token, logprob = sample_tokens(logits, uniform, sampling)
            entropies = entropy_of(logits, sampling).tolist() if step < sampling.entropies else [None] * len(running)
            for row, token_id, value, entropy in zip(running, token.tolist(), logprob.tolist(), entropies, strict=True):
                tokens[row].append((token_id, value, entropy))
                sequences[row] += np.int32(token_id).tobytes()
            running = [row for row in running if tokens[row][-1][0] not in end_ids]
        return [_completion(tokens[row]) if has_logits[row] else None for row in range(len(requests))]


def _completion(tokens: Sequence[tuple[int, float, float | None]]) -> Completion:
    ids, logprobs, entropies = zip(*tokens, strict=True)
    computed = [entropy for entropy in entropies if entropy is not None]
    return Completion(np.array(ids, np.int32), np.array(logprobs, np.float32), np.array(computed, np.float32))
