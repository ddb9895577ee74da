"""The equality tests of the GPU script find what they look for: wrong gradients, also where the numbers are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gpu.checks import checks, vllm_calls
from gpu.gradients import gradient_gap, within
from helpers.models.transformers_engine import TransformersEngine, toy_model

from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer


@pytest.fixture(scope="module")
def model() -> Any:
    sizes = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=128, vocabulary=300, init=0.1)
    return build_model(sizes, build_tokenizer(["up down left right"] * 4, sizes), seed=1)


class Engine(TransformersEngine):
    """An engine in the trainer's process, made of transformers."""

    exact = False


class Seedless(Engine):
    def complete(self, prompts: Any, sampling: Any, end_ids: Any, seed: int) -> Any:
        return super().complete(prompts, sampling, end_ids, seed * 0)


class Unrepeatable(Engine):
    def complete(self, prompts: Any, sampling: Any, end_ids: Any, seed: int) -> Any:
        return super().complete(prompts, sampling, end_ids, len(self.calls))


def test_calls_of_an_engine_that_do_not_follow_their_seed_are_found() -> None:
    assert vllm_calls(toy_model(tied=True), make_engine=Engine)["max_difference"] < 1e-4
    for engine, message in (
        (Unrepeatable, "equal calls gave different"),
        (Seedless, "different random numbers gave equal"),
    ):
        with pytest.raises(ArithmeticError, match=message):
            vllm_calls(toy_model(tied=True), make_engine=engine)


def test_packed_rows_with_another_gradient_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from creditflow.train.policy.packing import attention

    named = checks(torch.device("cpu"))
    assert named["shared-prompts"]()["max_difference"] <= 1e-4
    monkeypatch.setattr(
        attention, "portable_attention", lambda q, k, v, *_: v.repeat_interleave(2, 1) + 0 * q * k.sum()
    )
    with pytest.raises(ArithmeticError, match="packed rows: off by"):
        named["shared-prompts"]()


def test_what_is_not_a_number_is_not_within_any_limit() -> None:
    one, wrong = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
    for found in ((one, wrong), (wrong, one)):
        with pytest.raises(ArithmeticError, match="off by nan"):
            within(gradient_gap(found, (one, one)), 1e9, "rows")
