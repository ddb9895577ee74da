"""Equality tests on a device: the sampler, packed rows, chunks and precisions against a plain fp32 forward pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from gpu.gradients import largest, within
from gpu.packing_checks import packing_checks
from gpu.rows import HIGHEST, LOWEST, uneven_rows

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.token_sampling import kept_tokens
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.trained import VllmTrainedBackend
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import hidden_before, token_logprobs
from creditflow.train.policy.losses import segment_log_ratio
from creditflow.train.policy.network.options import autocast
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.old_logprobs import OldLogprobs, compute_logprobs
from creditflow.train.policy.samples import Row
from creditflow.train.policy.update import update_policy
from creditflow.train.settings.schema import UpdateConfig

__all__ = ["checks", "vllm_calls"]

FP32, BF16 = 1e-4, 0.2  # largest |difference| of a log-probability


def checks(device: Any) -> dict[str, Callable[[], dict[str, Any]]]:
    """Named checks; each raises ArithmeticError when an equality does not hold."""
    sizes = ScratchConfig(hidden=128, layers=3, heads=4, kv_heads=2, intermediate=256, vocabulary=300, init=0.1)
    model = build_model(sizes, build_tokenizer(["up down left right"] * 4, sizes), seed=1, device=device)
    named: dict[str, Callable[[], dict[str, Any]]] = {
        "sampler-dynamic": partial(_sampler, model, {}, FP32),
        "sampler-bfloat16": partial(_sampler, model, {"dtype": torch.bfloat16}, BF16),
        "split": partial(_layouts, model, {"batch_tokens": 64}),
        "chunks": partial(_layouts, model, {"logits_chunk": 5}),
        **packing_checks(model, device),
        "autocast": partial(_autocast, model),
        "nucleus": partial(_nucleus, model),
        "turn-ratio": partial(_turn_ratio, device),
        "first-ratio": partial(_first_ratio, model),
    }
    named["vllm"] = partial(vllm_calls, model)
    return named


def _plain(model: Any, ids: Any) -> Any:
    device = next(model.parameters()).device
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(ids.astype(np.int64))[None].to(device)).logits[0].float()
    return torch.log_softmax(logits, -1).cpu().numpy()


def _sampler(model: Any, options: dict[str, Any], limit: float) -> dict[str, Any]:
    """Compare the sampler with plain forward passes over three turns of conversations of unequal length."""
    backend = TransformersBackend(model, **options)
    rng, gaps = np.random.default_rng(1), list[float]()
    ids = {i: rng.integers(LOWEST, HIGHEST, 3 + 5 * i).astype(np.int32) for i in range(6)}
    for turn in range(3):
        requests = [GenerationRequest(i, ids[i], rng.random(5)) for i in ids if i >= turn]
        answers = backend.generate(requests, Sampling(max_new_tokens=5), frozenset({1}))
        for request, answer in zip(requests, answers, strict=True):
            whole = np.concatenate([request.ids, answer.ids])
            table = _plain(model, whole)
            at = np.arange(len(request.ids), len(whole))
            gaps.append(float(np.abs(table[at - 1, whole[at]] - answer.logprobs).max()))
            ids[int(str(request.key))] = np.concatenate([whole, rng.integers(LOWEST, HIGHEST, 2).astype(np.int32)])
    return within(largest(gaps), limit, f"sampler {options}")


def vllm_calls(model: Any, **options: Any) -> dict[str, Any]:
    """With vLLM in this process, equal calls give equal completions, also after sleep and a push, and others do not.

    Args:
        model: the model whose weights are pushed, as tensors; every push is compared with its forward pass.
        options: for ``VllmTrainedBackend``.
    """
    config = VllmConfig(kv_gib=0.25, eager=True, sleep=True)
    backend = VllmTrainedBackend(model, dtype="bfloat16", config=config, **options)
    differences, found = list[float](), list[list[list[int]]]()
    for seed in (1, 1, 2):
        backend.sync(f"call {len(found)}")
        differences.append(backend.sync_numbers["push_difference"])
        rng = np.random.default_rng(seed)
        prompts = [np.arange(LOWEST, LOWEST + 20 + i, dtype=np.int32) for i in range(6)]
        requests = [GenerationRequest(i, prompt, rng.random(8)) for i, prompt in enumerate(prompts)]
        answers = backend.generate(requests, Sampling(max_new_tokens=8), frozenset({1}))
        found.append([answer.ids.tolist() for answer in answers])
        backend.sleep()
    first, again, other = found
    if first != again:
        raise ArithmeticError("vLLM: two equal calls gave different completions")
    if first == other:
        raise ArithmeticError("vLLM: calls with different random numbers gave equal completions")
    return within(largest(differences), BF16, "weights pushed to vLLM")


def _flat(model: Any, rows: list[Row], **options: Any) -> Any:
    return np.concatenate(compute_logprobs(model, rows, UpdateConfig(**options), temperature=1.0))


def _layouts(model: Any, options: dict[str, Any]) -> dict[str, Any]:
    rows = uneven_rows()
    gap = float(np.abs(_flat(model, rows, **options) - _flat(model, rows)).max())
    return within(gap, FP32, str(options))


def _autocast(model: Any) -> dict[str, Any]:
    rows = uneven_rows()
    device = next(model.parameters()).device
    gaps = []
    for batch in batches_of(rows, 4096, device):
        with torch.no_grad():
            exact = token_logprobs(model, batch).logprob
            with autocast("bfloat16", device):
                rough = token_logprobs(model, batch).logprob
        gaps.append(float((exact - rough).abs().max()))
    return within(largest(gaps), BF16, "bfloat16 autocast")


def _nucleus(model: Any) -> dict[str, Any]:
    """Under truncation the log-probabilities are those of the whole distribution, renormalised over the stored nuclei."""
    rows, sampling = uneven_rows(), Sampling(top_p=0.8)
    device = next(model.parameters()).device
    gaps = []
    for batch in batches_of(rows, 4096, device):
        with torch.no_grad():
            own = token_logprobs(model, batch, truncation=sampling, logits_chunk=7)
            stored = token_logprobs(model, batch, truncation=sampling, nuclei=own.nuclei)
            logits = model.get_output_embeddings()(hidden_before(model.get_decoder(), batch)).float()
        kept = kept_tokens(torch.softmax(logits, -1), sampling).scatter(-1, batch.target[:, None], value=True)
        plain = torch.log_softmax(logits.masked_fill(~kept, -torch.inf), -1).gather(-1, batch.target[:, None])[:, 0]
        gaps += [float((one.logprob - plain).abs().max()) for one in (own, stored)]
    return within(largest(gaps), FP32, "nucleus")


def _turn_ratio(device: Any) -> dict[str, Any]:
    """The mean log-ratio of every segment, against NumPy."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 90, 200)
    log_ratio = rng.normal(0.0, 0.1, int(sizes.sum())).astype(np.float32)
    starts = np.cumsum(sizes) - sizes
    expected = np.repeat(np.add.reduceat(log_ratio.astype(np.float64), starts) / sizes, sizes)
    segment = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(device)
    found = segment_log_ratio(torch.from_numpy(log_ratio).to(device), segment).cpu().numpy()
    return within(float(np.abs(found - expected).max()), 1e-6, "turn ratio")


def _first_ratio(model: Any) -> dict[str, Any]:
    """The ratio of the first update is exactly 1; the optimiser is replaced by one that leaves the weights unchanged."""
    rows, config = uneven_rows(), UpdateConfig(epochs=1)

    class Still:
        """An optimiser whose steps change nothing."""

        param_groups: tuple[dict[str, float], ...] = ()

        def step(self) -> None:
            """Change nothing."""

        def zero_grad(self, *, set_to_none: bool) -> None:
            """Clear the gradient."""
            model.zero_grad(set_to_none=set_to_none)

    stats = update_policy(
        model, Still(), rows, OldLogprobs(compute_logprobs(model, rows, config, temperature=1.0)), config,
        aggregation="token_mean", temperature=1.0, lr=1.0, rng=np.random.default_rng(0),
    )  # fmt: skip
    return within(stats["first_step_ratio_deviation"], 0.0, "first ratio")
