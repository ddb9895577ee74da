"""Throughput on a device, next to its measured ceilings: matrix products and memory traffic.

The sampler; the update in every layout of micro-batches, whole and with
LoRA; and iterations of the trainer itself, with the time of their parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from gpu.rows import random_row, rows_with_prompt

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.train.policy.network.adapter import add_adapter
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer, parameter_count
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.optimizer import OptimizerConfig, make_optimizer
from creditflow.train.policy.samples import Row
from creditflow.train.policy.sft import sft_step
from creditflow.train.policy.update import update_policy
from creditflow.train.settings.model import LoraSettings
from creditflow.train.settings.schema import UpdateConfig

__all__ = ["measurements", "sizes_of"]


def sizes_of(toy: bool) -> ScratchConfig:
    """About 18 million parameters, or a toy."""
    if toy:
        return ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=128, vocabulary=640, init=0.1)
    return ScratchConfig(
        hidden=384, layers=8, heads=6, kv_heads=6, intermediate=1536, vocabulary=640, positions=2048, init=0.05
    )


def measurements(
    device: Any, *, toy: bool, known: Mapping[str, float] = MappingProxyType({})
) -> dict[str, Callable[[], dict[str, Any]]]:
    """Named measurements.

    Args:
        device: where to measure.
        toy: whether to use toy sizes.
        known: the device's limits, the result of "ceilings", if they were measured before.
    """
    ceilings = dict(known)
    sizes = sizes_of(toy)
    model = build_model(sizes, build_tokenizer(["up down left right"] * 4, sizes), seed=1, device=device)
    named: dict[str, Callable[[], dict[str, Any]]] = {
        "ceilings": partial(_ceilings, device, ceilings, toy),
        "sft": partial(_sft, model, device, ceilings, toy),
        "rollout-dynamic": partial(_rollout, model, device, ceilings, toy),
        "update-padded": partial(_update, model, device, ceilings, toy, "padded", _random_rows(toy)),
        "update-packed": partial(_update, model, device, ceilings, toy, "packed", _random_rows(toy)),
        "update-groups-padded": partial(_update, model, device, ceilings, toy, "padded", _groups(toy)),
        "update-groups-packed": partial(_update, model, device, ceilings, toy, "packed", _groups(toy)),
        "update-lora": partial(_lora, device, ceilings, toy, "bfloat16"),
        "update-lora-float32": partial(_lora, device, ceilings, toy, "none"),
    }
    return named


def _seconds(work: Callable[[], Any], device: Any, repeats: int) -> float:
    """Median seconds of one call, after two warm-up calls."""
    return _measured(work, device, repeats)[0]


def _measured(work: Callable[[], Any], device: Any, repeats: int) -> tuple[float, float]:
    """Median seconds of one call, after two warm-up calls, and the largest memory in use during all of them, in GiB (0 on a CPU)."""
    on_gpu, times = device.type == "cuda", []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)  # earlier measurements may have taken more
    for _ in range(repeats + 2):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - began)
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else 0.0
    return float(np.median(times[2:])), float(peak)


def _wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _ceilings(device: Any, ceilings: dict[str, float], toy: bool) -> dict[str, Any]:
    """Throughput of a large matrix product in bf16 and fp32 (FLOP/s) and of a large copy (byte/s)."""
    side = 256 if toy else 8192
    for name in ("bfloat16", "float32"):
        a = torch.randn(side, side, device=device, dtype=getattr(torch, name))
        ceilings[f"flops_{name}"] = 2.0 * side**3 / _seconds(partial(torch.matmul, a, a), device, 5)
    source = torch.empty((2**20 if toy else 2**30) // 4, device=device)
    target = torch.empty_like(source)
    ceilings["bytes"] = 2.0 * source.numel() * 4 / _seconds(partial(target.copy_, source), device, 5)
    return dict(ceilings)


def _random_rows(toy: bool) -> list[Row]:
    """Random rows like those of a rollout: unequal lengths, a sixth of the tokens in the loss."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(8 if toy else 512):
        length = int(rng.integers(24, 48)) if toy else int(rng.integers(60, 420))
        rows.append(random_row(rng, length, np.arange(6, length, 6), i))
    return rows


def _groups(toy: bool) -> list[Row]:
    """Random rows of groups of 16 responses (a toy: 4), each group with one prompt three times as long as its longest."""
    size, prompt, longest = (4, 24, 8) if toy else (16, 600, 200)
    rng = np.random.default_rng(0)
    return [
        row
        for group in range(2 if toy else 16)
        for row in rows_with_prompt(rng, size, prompt, longest, first=group * size)
    ]


def _throughput(tokens: float, seconds: float, model: Any, ceilings: dict[str, float], passes: float) -> dict[str, Any]:
    """Tokens a second, and the fraction of the measured bf16 ceiling: 2 FLOP per parameter, token and forward pass."""
    speed = tokens / seconds
    out: dict[str, Any] = {"tokens_per_second": speed, "parameters": parameter_count(model)}
    if "flops_bfloat16" in ceilings:
        out["matmul_ceiling_fraction"] = speed * 2.0 * passes * parameter_count(model) / ceilings["flops_bfloat16"]
    return out


def _training(
    step: Callable[[], Any], rows: list[Row], model: Any, device: Any, ceilings: dict[str, float], toy: bool
) -> dict[str, Any]:
    """Throughput and memory of a training step over all rows: a forward pass, and a backward pass that costs twice as much."""
    seconds, peak = _measured(step, device, 1 if toy else 5)
    return _throughput(sum(map(len, rows)), seconds, model, ceilings, 3.0) | {"peak_gib": peak}


def _sft(model: Any, device: Any, ceilings: dict[str, float], toy: bool) -> dict[str, Any]:
    rows = _random_rows(toy)
    optimizer = make_optimizer(model, OptimizerConfig(lr=1e-5))
    step = partial(
        sft_step, model, optimizer, rows, micro_tokens=2048 if toy else 131_072, packing="padded", logits_chunk=8192,
        config=OptimizerConfig(lr=1e-5), lr=1e-5, precision="bfloat16",
    )  # fmt: skip
    return _training(step, rows, model, device, ceilings, toy)


def _update(
    model: Any,
    device: Any,
    ceilings: dict[str, float],
    toy: bool,
    packing: Any,
    rows: list[Row],
    precision: str = "bfloat16",
) -> dict[str, Any]:
    """Tokens are those of rows, so that shared prompts show in the throughput, also against the ceiling."""
    config = UpdateConfig(batch_tokens=2048 if toy else 131_072, packing=packing, logits_chunk=8192)
    optimizer = make_optimizer(model, OptimizerConfig(lr=1e-6))
    step = partial(
        update_policy, model, optimizer, rows, OldLogprobs(None), config, aggregation="token_mean", temperature=1.0, lr=1e-6,
        rng=np.random.default_rng(0), precision=precision,
    )  # fmt: skip
    return _training(step, rows, model, device, ceilings, toy)


def _lora(device: Any, ceilings: dict[str, float], toy: bool, precision: str) -> dict[str, Any]:
    """The padded update of an adapter of rank 16 on a base in bfloat16; without peft the piece is skipped with its reason.

    Without autocast peft computes the adapter, and the sums with it, in float32: the two pieces tell what that costs.
    """
    sizes = sizes_of(toy)
    model = build_model(sizes, build_tokenizer(["up down left right"] * 4, sizes), seed=1, device=device)
    add_adapter(model.to(torch.bfloat16), LoraSettings(rank=16), seed=1)
    trained = sum(one.numel() for one in model.parameters() if one.requires_grad)
    found = _update(model, device, ceilings, toy, "padded", _random_rows(toy), precision=precision)
    return found | {"trained_parameters": trained}


def _rollout(model: Any, device: Any, ceilings: dict[str, float], toy: bool) -> dict[str, Any]:
    """Sampled tokens a second over three turns, without an environment, and the fraction of the memory ceiling.

    A step of one token reads every weight once: weights' bytes × steps / seconds, against a measured copy.
    """
    dtype = None if device.type == "cpu" else torch.bfloat16
    backend = TransformersBackend(model, dtype=dtype)
    rows, longest, turns = (4, 4, 2) if toy else (1024, 16, 3)
    sampling, counted = Sampling(max_new_tokens=longest), {"tokens": 0, "steps": 0}

    def play() -> None:
        rng = np.random.default_rng(0)
        ids = [rng.integers(10, 250, 40).astype(np.int32) for _ in range(rows)]
        counted["tokens"] = counted["steps"] = 0
        for _ in range(turns):
            requests = [GenerationRequest(i, one, rng.random(longest)) for i, one in enumerate(ids)]
            answers = backend.generate(requests, sampling, frozenset())
            counted["tokens"] += sum(len(answer.ids) for answer in answers)
            counted["steps"] += max(len(answer.ids) for answer in answers)
            ids = [
                np.concatenate([one, answer.ids, rng.integers(10, 250, 30).astype(np.int32)])
                for one, answer in zip(ids, answers, strict=True)
            ]
        backend.sync()

    seconds, peak = _measured(play, device, 1 if toy else 3)
    size = next(backend.model.parameters()).element_size()
    out: dict[str, Any] = {"sampled_tokens_per_second": counted["tokens"] / seconds, "rows": rows, "peak_gib": peak}
    if "bytes" in ceilings:
        read = parameter_count(model) * size * counted["steps"]
        out["copy_ceiling_fraction"] = read / seconds / ceilings["bytes"]
    return out
