"""vLLM samples from the trained model after every weight push; a push that does not arrive is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.models.vllm_model import made_model

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling, WeightPushError
from creditflow.envs.errors import ConfigError

# vLLM and its imports warn of their own deprecated calls
pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]
ENDS = frozenset({1})
TOLERANCE = 1e-4  # of a log-probability, float32 against a float32 forward pass


def requests_of(count: int, length: int, tokens: int, seed: int = 0, first: int = 0) -> list[GenerationRequest]:
    rng = np.random.default_rng(seed)
    return [
        GenerationRequest(first + i, rng.integers(5, 260, length + i % 7).astype(np.int32), rng.random(tokens))
        for i in range(count)
    ]


def scored(model: Any, ids: Any, answer: Any, temperature: float = 1.0) -> list[float]:
    """Log-probabilities of a completion's ids by one forward pass."""
    import torch

    whole = torch.from_numpy(np.concatenate([ids, answer]).astype(np.int64))
    with torch.no_grad():
        table = torch.log_softmax(model(input_ids=whole[None]).logits[0].float() / temperature, -1)
    return [float(table[len(ids) + i - 1, whole[len(ids) + i]]) for i in range(len(answer))]


def cached(
    backend: Any, requests: list[GenerationRequest], sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> list[int]:
    """The number of prompt tokens of each request that came from the prefix cache."""
    found: list[int] = []
    whole = backend.engine._generate

    def counted(*arguments: Any) -> Any:
        outputs = whole(*arguments)
        found.extend(one.num_cached_tokens for one in outputs)
        return outputs

    with monkeypatch.context() as patched:
        patched.setattr(backend.engine, "_generate", counted)
        backend.generate(requests, sampling, ENDS)
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_logprobs_are_those_of_a_plain_forward_pass_at_the_temperature(pair: Any, temperature: float) -> None:
    model, backend = pair
    requests = requests_of(16, 60, 24)
    answers = backend.generate(requests, Sampling(max_new_tokens=24, temperature=temperature), ENDS)
    for request, answer in zip(requests, answers, strict=True):
        assert np.allclose(
            answer.logprobs, scored(model, request.ids, answer.ids, temperature or 1.0), atol=TOLERANCE, rtol=0
        )


def test_greedy_completions_are_those_of_the_transformers_backend(pair: Any) -> None:
    from creditflow.agents.backends.transformers_backend import TransformersBackend

    model, backend = pair
    requests, greedy = requests_of(16, 40, 16), Sampling(max_new_tokens=16, temperature=0.0)
    ours = TransformersBackend(model).generate(requests, greedy, ENDS)
    theirs = backend.generate(requests, greedy, ENDS)
    assert [one.ids.tolist() for one in theirs] == [one.ids.tolist() for one in ours]


def test_three_pushes_arrive(pair: Any, shift: Callable[[Any], None]) -> None:
    model, backend = pair
    requests = requests_of(4, 70, 8)
    before: list[Completion] = backend.generate(requests, Sampling(max_new_tokens=8), ENDS)
    for number in range(3):
        shift(model)
        moved = [scored(model, request.ids, one.ids) for request, one in zip(requests, before, strict=True)]
        assert max(np.abs(one.logprobs - now).max() for one, now in zip(before, moved, strict=True)) > 0.05
        backend.sync(f"push-{number}")
        assert backend.version == f"push-{number}"
        assert backend.sync_numbers["push_difference"] < TOLERANCE
        before = backend.generate(requests, Sampling(max_new_tokens=8), ENDS)
        for request, one in zip(requests, before, strict=True):
            assert np.allclose(one.logprobs, scored(model, request.ids, one.ids), atol=TOLERANCE, rtol=0)


def test_a_push_that_does_not_arrive_is_rejected(
    pair: Any, shift: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, backend = pair
    shift(model)
    with monkeypatch.context() as patched:
        patched.setattr(backend.engine, "receive", len)  # counts the tensors, and reads none
        with pytest.raises(WeightPushError, match=r"rl-7.* differ by"):
            backend.sync("rl-7")
    with pytest.raises(GenerationError, match="sync"):
        backend.generate(requests_of(1, 9, 4), Sampling(max_new_tokens=4), ENDS)


def test_cached_prefixes_of_old_weights_are_detected(
    pair: Any, shift: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, backend = pair
    shift(model)
    with monkeypatch.context() as patched:
        patched.setattr(backend.engine, "reset_prefix_cache", lambda: False)
        with pytest.raises(WeightPushError, match="could not be emptied"):
            backend.sync()
        patched.setattr(backend.engine, "reset_prefix_cache", lambda: True)
        with pytest.raises(WeightPushError, match="differ by"):
            backend.sync()


def test_a_tied_output_layer_without_the_update_is_detected(
    kind: str, pair: Any, shift: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.agents.backends.vllm import worker as vllm_worker

    model, backend = pair
    shift(model)
    with monkeypatch.context() as patched:
        patched.setattr(vllm_worker, "_repack_tied_head", lambda model: None)
        if kind == "tied":
            with pytest.raises(WeightPushError):
                backend.sync()
        else:
            backend.sync()


def test_a_longer_conversation_uses_the_cached_prefix_until_the_weights_change(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, backend = pair
    short = Sampling(max_new_tokens=4)
    [first] = requests_of(1, 100, 4, seed=3)
    assert cached(backend, [first], short, monkeypatch) == [0]
    [answer] = backend.generate([first], short, ENDS)
    longer = GenerationRequest(0, np.concatenate([first.ids, answer.ids, first.ids[:9]]), first.uniforms)
    assert cached(backend, [longer], short, monkeypatch) == [96]
    backend.sync()
    assert cached(backend, [longer], short, monkeypatch) == [0]


def test_equal_prompts_are_one_request_with_different_completions(pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, backend = pair
    [one] = requests_of(1, 50, 12)
    rng = np.random.default_rng(1)
    requests = [GenerationRequest(i, one.ids, rng.random(12)) for i in range(8)]
    assert len(cached(backend, requests, Sampling(max_new_tokens=12), monkeypatch)) == 1
    answers = backend.generate(requests, Sampling(max_new_tokens=12), ENDS)
    assert len({tuple(answer.ids.tolist()) for answer in answers}) > 4


def test_the_same_call_from_the_same_cache_gives_the_same_completions(pair: Any) -> None:
    _, backend = pair
    sampling, requests = Sampling(max_new_tokens=12), requests_of(64, 100, 12)
    rounds = []
    for draws in (0, 0, 1):
        backend.sync()
        drawn = (
            requests
            if draws == 0
            else [GenerationRequest(request.key, request.ids, request.uniforms[::-1]) for request in requests]
        )
        rounds.append([answer.ids.tolist() for answer in backend.generate(drawn, sampling, ENDS)])
    assert rounds[0] == rounds[1] != rounds[2]


def test_a_completion_stops_at_its_end_token_or_at_the_length_limit(pair: Any) -> None:
    _, backend = pair
    ends = frozenset(range(5, 60))
    answers = backend.generate(requests_of(32, 30, 8), Sampling(max_new_tokens=8, temperature=2.0), ends)
    assert all(1 <= len(one.ids) <= 8 and not ends & set(one.ids[:-1].tolist()) for one in answers)
    assert all(len(one.ids) == 8 or int(one.ids[-1]) in ends for one in answers)
    assert {len(one.ids) == 8 for one in answers} == {True, False}


def test_the_host_process_keeps_its_random_state_and_threads(pair: Any) -> None:
    import torch

    _, backend = pair
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    backend.sync()
    backend.generate(requests_of(2, 20, 4), Sampling(max_new_tokens=4), ENDS)
    assert torch.equal(torch.rand(3), expected)
    torch.set_num_threads(2)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_sampling_whose_logprobs_vllm_would_report_wrongly_is_rejected(pair: Any) -> None:
    _, backend = pair
    for sampling in (Sampling(top_p=0.9), Sampling(top_k=5), Sampling(entropies=2), Sampling(temperature=0.001)):
        with pytest.raises(ConfigError, match="vLLM"):
            backend.generate(requests_of(1, 9, 4), sampling, ENDS)


def test_a_sleeping_sampler_must_be_synced(pair: Any) -> None:
    _, backend = pair
    backend.sleep()
    with pytest.raises(GenerationError, match="asleep"):
        backend.generate(requests_of(1, 9, 4), Sampling(max_new_tokens=4), ENDS)
    backend.sync()
    assert backend.generate(requests_of(1, 9, 4), Sampling(max_new_tokens=4), ENDS)


def test_a_sampler_of_lower_precision_has_a_larger_tolerance(
    shift: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.agents.backends.vllm.config import VllmConfig
    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend

    model = made_model("qwen3", True)
    backend = VllmTrainedBackend(model, dtype="bfloat16", config=VllmConfig(kv_gib=0.25))
    for number in range(2):
        shift(model)
        backend.sync(f"push-{number}")
        assert TOLERANCE < backend.sync_numbers["push_difference"] < 0.1
    shift(model)
    monkeypatch.setattr(backend.engine, "receive", len)
    with pytest.raises(WeightPushError, match=r"0\.1 is allowed"):
        backend.sync("lost")
