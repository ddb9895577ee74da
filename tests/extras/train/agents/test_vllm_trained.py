"""A sampler with its own weights follows the trained model: every push is checked, and a failed one raises.

The engine computes with transformers; vLLM itself is tested in the tier vllm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.transformers_engine import TransformersEngine, toy_model

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling, WeightPushError
from creditflow.agents.backends.engine import ProbeResult
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.trained import (
    COARSE_TOLERANCE,
    VllmTrainedBackend,
    checkpoint_tensors,
    probe_differences,
)


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest) -> Any:
    return toy_model(tied=request.param)


def follower(model: Any, *, dtype: str = "float32", **options: Any) -> tuple[VllmTrainedBackend, TransformersEngine]:
    made: list[TransformersEngine] = []

    def make(folder: str) -> TransformersEngine:
        made.append(TransformersEngine(folder))
        return made[0]

    return VllmTrainedBackend(model, dtype=dtype, make_engine=make, **options), made[0]


def move(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) * 0.05)


JOBS = [GenerationRequest(i, np.array([5, 6, 7], np.int32), np.full(4, 0.1 * i)) for i in range(3)]
FOUR = Sampling(max_new_tokens=4)


def test_every_push_arrives_and_is_checked(model: Any) -> None:
    backend, engine = follower(model)
    for number in range(3):
        move(model)
        backend.sync(f"v{number}")
        assert backend.version == f"v{number}"
        assert backend.sync_numbers["push_difference"] < 1e-5
        for ours, theirs in zip(model.parameters(), engine.model.parameters(), strict=True):
            assert torch.equal(ours, theirs)
    assert engine.calls == ["receive", "reset_prefix_cache", "probe"] * 3


def test_a_push_that_does_not_arrive_raises_and_nothing_is_sampled_afterwards(model: Any) -> None:
    backend, engine = follower(model)
    backend.sync("first")
    engine.lose = {"receive"}
    move(model)
    with pytest.raises(WeightPushError, match=r"weights of second.*0\.001 is allowed"):
        backend.sync("second")
    assert backend.version == "first"
    with pytest.raises(GenerationError, match="between two versions"):
        backend.generate(JOBS, FOUR, frozenset({1}))
    engine.lose = set()
    backend.sync("second")
    assert len(backend.generate(JOBS, FOUR, frozenset({1}))) == 3


@pytest.mark.parametrize(
    ("lost", "message"), [("tensor", "the sampler read"), ("reset_prefix_cache", "could not be emptied")]
)
def test_an_incomplete_push_is_an_error_however_little_it_changes(model: Any, lost: str, message: str) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=100.0))
    backend.sync("first")
    engine.lose = {lost}
    with pytest.raises(WeightPushError, match=message):
        backend.sync("second")
    assert backend.version == "first"


def test_the_tolerance_is_the_largest_allowed_difference(model: Any) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=100.0))
    backend.sync()
    engine.lose = {"receive"}
    move(model)
    backend.sync()
    assert backend.sync_numbers["push_difference"] > 1e-3


def test_weights_that_are_nan_are_a_failed_push(model: Any) -> None:
    backend, _ = follower(model, config=VllmConfig(tolerance=100.0))
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    with pytest.raises(WeightPushError):
        backend.sync()


def test_every_reported_token_is_compared_with_a_plain_forward_pass(model: Any) -> None:
    prompt = np.array([5, 6, 7], np.int32)
    with torch.no_grad():
        table = torch.log_softmax(model(input_ids=torch.from_numpy(prompt.astype(np.int64))[None]).logits[0, -1], -1)
    probed = ProbeResult(np.array([9], np.int32), ({9: float(table[9]), 11: float(table[11]) - 0.25},))
    model.train()
    assert probe_differences(model, prompt, probed) == pytest.approx([0.0, 0.25], abs=1e-5)
    assert model.training


@pytest.mark.parametrize(("exact", "seen"), [(True, 0.3), (False, 0.1)])
def test_the_largest_difference_counts_in_float32_and_the_mean_in_coarser_formats(
    model: Any, exact: bool, seen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=1.0))
    whole = engine.probe

    def off(ids: Any, tokens: int) -> ProbeResult:
        probed = whole(ids, tokens)
        [row] = probed.logprobs
        first = next(iter(row))
        return ProbeResult(probed.ids, (dict(row) | {first: row[first] - 0.3},))

    monkeypatch.setattr(engine, "probe", off)
    monkeypatch.setattr(engine, "exact", exact)
    backend.sync()
    assert backend.sync_numbers["push_difference"] == pytest.approx(seen, abs=1e-4)


def test_a_probe_without_log_probabilities_is_a_failed_push(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, engine = follower(model, config=VllmConfig(tolerance=100.0))
    monkeypatch.setattr(engine, "probe", lambda ids, tokens: ProbeResult(np.zeros(0, np.int32), ()))
    with pytest.raises(WeightPushError):
        backend.sync()


def test_tensors_have_the_names_and_values_of_a_checkpoint(model: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model.save_pretrained(tmp_path)
    written, tensors = load_file(tmp_path / "model.safetensors"), checkpoint_tensors(model)
    assert tensors.keys() == written.keys()
    assert all(torch.equal(tensors[name], written[name]) for name in written)


def test_the_tolerance_of_a_coarse_format_grows_with_what_it_does_to_the_model_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = toy_model(tied=False)
    with torch.no_grad():  # large weights: bfloat16 alone moves log-probabilities by more than 0.1
        for parameter in model.parameters():
            parameter.mul_(10.0 if parameter.ndim > 1 else 1.0)
    backend, engine = follower(model, dtype="bfloat16")
    monkeypatch.setattr(engine, "exact", False)
    receive = engine.receive

    def coarse(tensors: Any) -> int:
        read = receive(tensors)
        engine.model.to(torch.bfloat16)
        return read

    monkeypatch.setattr(engine, "receive", coarse)
    backend.sync("v1")
    assert backend.sync_numbers["push_difference"] > COARSE_TOLERANCE
    move(model)
    engine.lose.add("receive")
    with pytest.raises(WeightPushError, match="is allowed"):
        backend.sync("v2")


def test_sleep_and_wake_surround_the_push_and_blocks_that_torch_caches_are_free_before(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, engine = follower(model)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: engine.calls.append("empty_cache"))
    with pytest.raises(GenerationError, match="the sampler is empty"):
        backend.generate(JOBS, FOUR, frozenset({1}))
    backend.sync()
    engine.calls.clear()
    backend.generate(JOBS, FOUR, frozenset({1}))
    backend.sleep()
    backend.sleep()
    with pytest.raises(GenerationError, match="asleep"):
        backend.generate(JOBS, FOUR, frozenset({1}))
    backend.sync()
    backend.generate(JOBS, FOUR, frozenset({1}))
    assert engine.calls == [
        "complete",
        "sleep",
        "empty_cache",
        "wake weights",
        "receive",
        "empty_cache",
        "wake kv_cache",
        "reset_prefix_cache",
        "probe",
        "complete",
    ]
