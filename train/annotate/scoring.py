"""Log-probabilities of chosen tokens under a causal language model, in batches of a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.language_model.pretrained import require_torch
from creditflow.agents.language_model.text_ids import text_ids
from creditflow.agents.models.vision import text_config
from creditflow.train.annotate.base import AnnotationError, Provenance
from creditflow.train.annotate.registry import Context
from creditflow.train.run.digest import folder_digest

__all__ = ["Scored", "encoded", "model_limit", "open_scorer", "scored_logprobs"]


class Scored(NamedTuple):
    """A token sequence, some tokens of which are scored.

    Attributes:
        ids: int32 (L,), token ids.
        target: int64 (n,), positions of the scored tokens, ascending, each at least 1.
        where: the trajectory and turn, for error messages.
    """

    ids: NDArray[np.int32]
    target: NDArray[np.int64]
    where: str

    @classmethod
    def end(cls, history: NDArray[np.int32], scored: NDArray[np.int32], where: str) -> Scored:
        """A history followed by ``scored``, all of whose tokens are scored."""
        n = len(history)
        return cls(np.concatenate([history, scored]), np.arange(n, n + len(scored)), where)


def model_limit(model: Any) -> int:
    """The maximum number of tokens of the model's context; 0 if its configuration does not state one."""
    return int(getattr(text_config(model), "max_position_embeddings", 0) or 0)


def scored_logprobs(model: Any, jobs: Sequence[Scored], batch_tokens: int) -> list[NDArray[np.float64]]:
    """log p of the scored tokens of each sequence, float64 (n,), given all tokens before them.

    Args:
        model: a causal language model.
        jobs: the sequences.
        batch_tokens: token budget of a forward pass.

    Raises:
        AnnotationError: a scored token is the first of its sequence, or a sequence is longer than the model's context.
    """
    import torch

    from creditflow.train.policy.batching import batches_of, split_by_row
    from creditflow.train.policy.logprobs import token_logprobs
    from creditflow.train.policy.samples import Row

    limit, rows = model_limit(model), []
    out = [np.zeros(0) for _ in jobs]
    for number, (ids, target, where) in enumerate(jobs):
        if len(target) and not target[0]:
            raise AnnotationError(f"{where}: the scored tokens need a history before them, but it is empty")
        if limit and len(ids) > limit:
            raise AnnotationError(
                f"{where}: {len(ids)} tokens, the model takes at most {limit}; use a model with a longer context"
            )
        blank = np.zeros(len(target))
        if len(target):
            rows.append(Row(ids, target, blank, blank.astype(np.float32), np.zeros(len(target), np.int32), number))
    device = next(model.parameters()).device
    with torch.no_grad():
        for batch in batches_of(rows, batch_tokens, device):
            for i, logprobs in split_by_row(token_logprobs(model, batch).logprob, batch, rows):
                out[rows[i].trajectory] = logprobs.astype(np.float64)
    return out


def open_scorer(
    annotator: str, argument: str, context: Context, parameters: Mapping[str, Any]
) -> tuple[Any, Any, Provenance]:
    """The language model in a folder, for scoring; its tokenizer, and the provenance of an annotator that reads it.

    Args:
        annotator: name of the annotator.
        argument: folder of the model.
        context: where the model runs.
        parameters: what its values depend on.

    Raises:
        MissingExtraError: torch is not installed.
        ConfigError, DataError: the folder holds no model of a supported kind.
    """
    require_torch()
    from creditflow.agents.language_model.pretrained import open_pretrained
    from creditflow.train.policy.logprobs import check_model

    model, tokenizer = open_pretrained(argument, device=context.device)
    check_model(model)
    return model.eval(), tokenizer, Provenance(annotator, 2, parameters, folder_digest(argument))


def encoded(tokenizer: Any, text: str) -> NDArray[np.int32]:
    """The tokens of a plain text, int32, without special ones."""
    return np.asarray(text_ids(tokenizer, [text])[0], np.int32)
