"""Log-probabilities and entropies of target tokens, without materialising the logits of a full batch.

Only hidden states at positions that predict a target token go to the output layer, a chunk at a time; the backward
pass recomputes each chunk. Memory for logits is chunk × V instead of B × T × V.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from creditflow.agents.backends.base import Sampling
from creditflow.agents.models.vision import completion_logits, decoder_of, has_vision, text_config
from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.policy.batching import MicroBatch
from creditflow.train.policy.nucleus import Nuclei, allowed_tokens, nuclei_of
from creditflow.train.policy.packing.attention import packed_hidden

__all__ = ["TokenLogprobs", "check_model", "hidden_before", "token_logprobs"]


class TokenLogprobs(NamedTuple):
    """Log-probability and entropy (nats), float32 (N,) each, in the order of the batch's target tokens.

    Under truncation, if no gradient is recorded, also the nuclei that were computed from the logits.
    """

    logprob: Any
    entropy: Any
    nuclei: Nuclei | None = None


def hidden_before(decoder: Any, batch: MicroBatch) -> Any:
    """(P, hidden): the last hidden state at the token before every prediction's, which does not depend on its target.

    Args:
        decoder: a model of ``transformers`` without output layer (``decoder_of``).
        batch: the micro-batch.

    Raises:
        ConfigError: the batch is packed, and the model has an attention that packed micro-batches lack; or it has pictures that
            the model cannot read.
        DataError: image tokens without pictures.
    """
    _check_pictures(decoder, batch)
    if batch.forest is None:
        hidden = decoder(
            input_ids=batch.ids, position_ids=batch.positions, use_cache=False, **batch.pictures
        ).last_hidden_state
    else:
        hidden = packed_hidden(decoder, batch.ids, batch.positions, batch.forest)
    return hidden.flatten(0, 1)[batch.before]


def _check_pictures(decoder: Any, batch: MicroBatch) -> None:
    if not has_vision(decoder):
        if batch.pictures:
            raise ConfigError(f"these rows have pictures, which {type(decoder).__name__} cannot read")
    elif not batch.pictures and bool((batch.ids == decoder.config.image_token_id).any()):
        raise DataError(
            "these rows have image tokens without pictures: tokens that were read from a log carry none, so that they cannot be "
            "trained on or scored"
        )


def token_logprobs(
    model: Any,
    batch: MicroBatch,
    *,
    temperature: float = 1.0,
    logits_chunk: int = 1024,
    before: Any | None = None,
    truncation: Sampling | None = None,
    nuclei: Nuclei | None = None,
) -> TokenLogprobs:
    """Log-probability of every target token, and the entropy of its distribution (nats).

    Args:
        model: a causal language model of ``transformers``.
        batch: the micro-batch.
        temperature: sampling temperature, which divides the logits.
        logits_chunk: number of predictions whose logits are computed at once.
        before: ``hidden_before`` of the model's decoder, if it was computed already.
        truncation: top_p and top_k of the sampler, if it truncates: probabilities are then over each token's nucleus.
        nuclei: nuclei of the batch's target tokens; None computes them from the model's own logits.
    """
    before = hidden_before(decoder_of(model), batch) if before is None else before
    target = batch.target
    if nuclei is not None and batch.first is not None:
        nuclei = nuclei.select(batch.first)
    head = partial(_completion_logits, model, model.get_output_embeddings())
    chunks = []
    for start in range(0, len(target), logits_chunk):
        chunk = slice(start, start + logits_chunk)
        chunk_nuclei = None if nuclei is None else nuclei.select(np.arange(len(target))[chunk])
        arguments = (head, before[chunk], target[chunk], temperature, truncation, chunk_nuclei)
        if torch.is_grad_enabled() and len(target) > logits_chunk:
            chunks.append(checkpoint(_logprob_entropy, *arguments, use_reentrant=False))
        else:
            chunks.append(_logprob_entropy(*arguments))
    logprobs, entropies, chunked_nuclei = zip(*chunks, strict=True)
    computed = [one_chunk for one_chunk in chunked_nuclei if one_chunk is not None]
    policy_nuclei = Nuclei.concatenate(computed) if computed else None
    if policy_nuclei is not None and batch.prediction is not None:
        policy_nuclei = policy_nuclei.select(batch.prediction.cpu().numpy())
    logprob, entropy = batch.by_target(torch.cat(logprobs)), batch.by_target(torch.cat(entropies))
    return TokenLogprobs(logprob, entropy, policy_nuclei)


def _completion_logits(model: Any, head: Any, states: Any) -> Any:
    return completion_logits(model, head(states))


def _logprob_entropy(
    head: Any, states: Any, target: Any, temperature: float, truncation: Sampling | None, nuclei: Nuclei | None
) -> tuple[Any, Any, Nuclei | None]:
    logits = head(states).float() / temperature
    if truncation is None:
        log_probs = torch.log_softmax(logits, -1)
        logprob = log_probs.gather(-1, target[:, None])[:, 0]  # before the entropy: gradients are added in this order
        return logprob, -(log_probs.exp() * log_probs).sum(-1), None
    allowed = allowed_tokens(logits, target, truncation, nuclei)
    log_probs = torch.log_softmax(logits.masked_fill(~allowed, -torch.inf), -1)
    logprob = log_probs.gather(-1, target[:, None])[:, 0]
    entropy = -(log_probs.exp() * log_probs.masked_fill(~allowed, 0.0)).sum(-1)
    return logprob, entropy, nuclei_of(allowed) if nuclei is None and not torch.is_grad_enabled() else None


def check_model(model: Any) -> None:
    """Compare with the model's own logits: some model families scale or cap them after the output layer.

    Raises:
        ConfigError: this model's logits are not its output layer applied to its last hidden state.
    """
    ids = torch.arange(4, device=next(model.parameters()).device)[None] % text_config(model).vocab_size
    trained = model.training
    model.eval()
    with torch.no_grad():
        expected = model(input_ids=ids, use_cache=False).logits.float()
        ours = model.get_output_embeddings()(
            decoder_of(model)(input_ids=ids, use_cache=False).last_hidden_state
        ).float()
    model.train(trained)
    if not torch.allclose(expected, ours, rtol=1e-3, atol=1e-3):
        raise ConfigError(
            f"{type(model).__name__} changes its logits after the output layer (scaling or soft caps): chunked "
            "log-probabilities would be wrong for it, so it cannot be trained here"
        )
