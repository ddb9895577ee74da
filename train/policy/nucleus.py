"""Truncated sampling (top-p, top-k) in the trainer: both policies of a ratio are renormalised over the same tokens.

With top-p < 1 a token is sampled from π_old renormalised over its nucleus N, the tokens that truncation keeps. With
log-probabilities of the whole distribution the gradient would be biased: tokens outside N are never sampled, so a positive
advantage raises the probability of N and a negative one lowers it, whichever token was sampled. All log-probabilities, and the
entropy, are therefore of distributions over N: log π(a) − log π(N), for the old policy, the current one and the reference.
N is the old policy's. It is stored for an iteration as token ids, which are few at top-p .95; a mask over the vocabulary would
take V bits per token. The sampler reports log-probabilities of the truncated distribution too. DeepSeek-V3.2
(arXiv 2512.02556) does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditflow.agents.backends.base import Sampling
from creditflow.agents.backends.token_sampling import kept_tokens

__all__ = ["Nuclei", "allowed_tokens", "nuclei_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Nuclei:
    """The nucleus of every target token.

    Attributes:
        sizes: int64 (N,), number of tokens in each.
        ids: int32 (Σ sizes,), token ids, nucleus after nucleus.
    """

    sizes: NDArray[np.int64]
    ids: NDArray[np.int32]

    @classmethod
    def concatenate(cls, parts: Sequence[Nuclei]) -> Nuclei:
        """The nuclei of all parts, in order."""
        return cls(np.concatenate([nuclei.sizes for nuclei in parts]), np.concatenate([nuclei.ids for nuclei in parts]))

    def split(self, sizes: Sequence[int]) -> list[Nuclei]:
        """Consecutive parts; ``sizes`` are their numbers of nuclei."""
        bounds = np.cumsum([0, *sizes])
        return [self.select(np.arange(a, b)) for a, b in pairwise(bounds)]

    def select(self, index: NDArray[np.int64]) -> Nuclei:
        """The nuclei of some target tokens; ``index`` (M,) are their positions among the N."""
        starts = np.cumsum(self.sizes) - self.sizes
        selected = [self.ids[starts[i] : starts[i] + self.sizes[i]] for i in index]
        return Nuclei(self.sizes[index], np.concatenate([np.zeros(0, np.int32), *selected]))


def allowed_tokens(logits: Any, target: Any, sampling: Sampling, nuclei: Nuclei | None = None) -> Any:
    """Bool (N, V): the nucleus of every target token; it always includes the target, which rounding could exclude.

    Args:
        logits: float32 (N, V), at the sampler's temperature.
        target: int64 (N,), sampled tokens.
        sampling: top_p and top_k.
        nuclei: those of the old policy; None computes them from ``logits``, which are then the old policy's.
    """
    if nuclei is None:
        allowed = kept_tokens(torch.softmax(logits.detach(), -1), sampling)
    else:
        allowed = torch.zeros_like(logits, dtype=torch.bool)
        token = torch.from_numpy(np.repeat(np.arange(len(nuclei.sizes)), nuclei.sizes)).to(logits.device)
        allowed[token, torch.from_numpy(nuclei.ids.astype(np.int64)).to(logits.device)] = True
    return allowed.scatter(-1, target[:, None], True)


def nuclei_of(allowed: Any) -> Nuclei:
    """The nuclei that a mask, bool (N, V), contains."""
    return Nuclei(allowed.sum(-1).cpu().numpy(), allowed.nonzero()[:, 1].to(torch.int32).cpu().numpy())
