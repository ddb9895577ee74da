"""The backend: its log-probabilities are those that a training pass computes, whatever the cache does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch

from creditflow.agents.backends.base import Completion, GenerationRequest, Sampling
from creditflow.agents.backends.token_sampling import sample_tokens
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import PromptingConfig
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv

ENDS = frozenset({1})
Ids = np.ndarray[Any, np.dtype[np.int32]]


@pytest.fixture(params=["qwen2", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    config = ScratchConfig(
        architecture=request.param, hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vocabulary=280, init=0.2
    )
    return build_model(config, build_tokenizer(["Pa1 Oa2"] * 4, config), seed=3)


def scored(model: Any, ids: Ids, answer: Ids, temperature: float = 1.0) -> list[float]:
    """Log-probabilities of an answer by one plain forward pass."""
    whole = torch.from_numpy(np.concatenate([ids, answer]).astype(np.int64))
    with torch.no_grad():
        logits = model(input_ids=whole[None]).logits[0].float() / temperature
    table = torch.log_softmax(logits, -1)
    return [float(table[len(ids) + i - 1, whole[len(ids) + i]]) for i in range(len(answer))]


def episodes(
    backend: TransformersBackend, sampling: Sampling, *, turns: int = 4, rows: int = 5
) -> list[list[tuple[Ids, Completion]]]:
    """Conversations of unequal lengths in lockstep; row i ends after i + 1 turns."""
    rng = np.random.default_rng(5)
    draws = [np.random.default_rng([1, i]) for i in range(rows)]
    ids: list[Ids] = [rng.integers(5, 250, 3 + 4 * i).astype(np.int32) for i in range(rows)]
    log: list[list[tuple[Ids, Completion]]] = [[] for _ in range(rows)]
    for turn in range(turns):
        alive = [i for i in range(rows) if i >= turn]
        requests = [GenerationRequest(i, ids[i], draws[i].random(sampling.max_new_tokens)) for i in alive]
        for i, sampled in zip(alive, backend.generate(requests, sampling, ENDS), strict=True):
            log[i].append((ids[i], sampled))
            new = np.random.default_rng([2, i, turn]).integers(5, 250, 1 + (i + turn) % 3).astype(np.int32)
            ids[i] = np.concatenate([ids[i], sampled.ids, new])
    return log


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_sampled_logprobs_are_those_of_a_plain_forward_pass(model: Any, temperature: float) -> None:
    backend = TransformersBackend(model)
    for row in episodes(backend, Sampling(max_new_tokens=6, temperature=temperature)):
        for ids, sampled in row:
            assert np.allclose(sampled.logprobs, scored(model, ids, sampled.ids, temperature), atol=1e-4, rtol=0)


def test_another_prompt_under_a_known_key_does_not_use_the_cache(model: Any) -> None:
    backend, rng = TransformersBackend(model), np.random.default_rng(7)
    sampling = Sampling(max_new_tokens=6)
    before: list[Ids] = []
    for turn in range(4):
        prompts = [rng.integers(5, 250, 20 * (turn + 1) + i).astype(np.int32) for i in range(3)]
        if turn == 2:  # one of them continues its conversation, as if only the others' windows had moved
            prompts[0] = np.concatenate([before[0], prompts[0]])
        requests = [GenerationRequest(i, ids, rng.random(6)) for i, ids in enumerate(prompts)]
        before = []
        for ids, sampled in zip(prompts, backend.generate(requests, sampling, ENDS), strict=True):
            assert np.allclose(sampled.logprobs, scored(model, ids, sampled.ids), atol=1e-4, rtol=0)
            before.append(np.concatenate([ids, sampled.ids]))


@pytest.mark.parametrize("history", ["append", "window"])
def test_every_turn_of_an_agent_is_scored_by_its_own_prompt(history: Literal["append", "window"]) -> None:
    config = ScratchConfig(
        hidden=64, layers=2, heads=4, kv_heads=2, intermediate=96, vocabulary=280, init=0.2, positions=4096
    )
    tokenizer = build_tokenizer(["go left or right"] * 4, config)
    model = build_model(config, tokenizer, seed=3)
    inner, spied = TransformersBackend(model), 0

    class Spy:
        version, context = inner.version, inner.context

        def generate(
            self, requests: Sequence[GenerationRequest], sampling: Sampling, end_ids: frozenset[int]
        ) -> list[Completion]:
            nonlocal spied
            answers = inner.generate(requests, sampling, end_ids)
            for request, sampled in zip(requests, answers, strict=True):
                assert np.allclose(sampled.logprobs, scored(model, request.ids, sampled.ids), atol=1e-4, rtol=0)
                spied += 1
            return answers

    agent = PromptingConfig(history=history).agent(Spy(), tokenizer, Sampling(max_new_tokens=8), name="spied")
    env = GroupEnv("sokoban", size=2, max_steps=4)
    tasks = env.tasks
    for task_id in list(tasks.task_ids())[:2]:  # the second task's episodes come under the same keys
        play_group(env, agent, tasks.get(task_id), seed=0)
    assert spied > 8


def test_the_cache_never_changes_a_token(model: Any) -> None:
    class Forgetful(TransformersBackend):
        def generate(self, *args: Any) -> list[Completion]:
            self.sync()
            return super().generate(*args)

    sampling = Sampling(max_new_tokens=6)
    kinds: list[Callable[[], TransformersBackend]] = [lambda: TransformersBackend(model), lambda: Forgetful(model)]
    first, *others = [
        [[sampled.ids.tolist() for _, sampled in row] for row in episodes(make(), sampling)] for make in kinds
    ]
    assert all(other == first for other in others)


def test_a_completion_stops_at_its_end_token_or_is_cut(model: Any) -> None:
    log = episodes(TransformersBackend(model), Sampling(max_new_tokens=8, temperature=3.0), rows=12, turns=6)
    answers = [sampled.ids.tolist() for row in log for _, sampled in row]
    assert all(1 <= len(answer) <= 8 and 1 not in answer[:-1] for answer in answers)
    assert all(len(answer) == 8 or answer[-1] == 1 for answer in answers)


def test_an_episode_does_not_depend_on_the_rest_of_its_batch(model: Any) -> None:
    sampling = Sampling(max_new_tokens=6)
    together = episodes(TransformersBackend(model), sampling, rows=5)
    fewer = episodes(TransformersBackend(model), sampling, rows=3)
    assert [[s.ids.tolist() for _, s in row] for row in together[:3]] == [
        [s.ids.tolist() for _, s in row] for row in fewer
    ]


def test_a_copy_in_another_precision_follows_its_source(model: Any) -> None:
    backend = TransformersBackend(model, dtype=torch.bfloat16)
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(0.5)
    backend.sync("new")
    assert backend.version == "new"
    assert torch.equal(backend.model.get_input_embeddings().weight, model.get_input_embeddings().weight.bfloat16())


def test_greedy_takes_the_most_likely_token_and_truncation_renormalises_over_the_tokens_it_keeps() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0]])
    whole = torch.log_softmax(logits, -1)[0]
    token, score = sample_tokens(logits, torch.zeros(1, dtype=torch.float64), Sampling(temperature=0.0))
    assert int(token) == 1
    assert float(score) == pytest.approx(float(whole[1]))
    seen = set()
    for u in np.linspace(0.0, 0.999999, 101):
        token, score = sample_tokens(logits, torch.tensor([u], dtype=torch.float64), Sampling(top_k=2))
        seen.add(int(token))
        assert float(score) == pytest.approx(float(whole[int(token)] - whole[[1, 3]].logsumexp(0)))
    assert seen == {1, 3}
    nucleus = {
        int(sample_tokens(logits, torch.tensor([u], dtype=torch.float64), Sampling(top_p=0.6))[0])
        for u in np.linspace(0, 0.99, 50)
    }
    assert nucleus == {1}


def test_sampled_tokens_follow_the_distribution() -> None:
    logits = torch.log(torch.tensor([0.1, 0.0, 0.6, 0.3]))[None].repeat(20_000, 1)
    uniform = torch.from_numpy(np.random.default_rng(0).random(20_000))
    token, _ = sample_tokens(logits, uniform, Sampling())
    counts = torch.bincount(token, minlength=4).double() / 20_000
    assert counts[1] == 0
    assert torch.allclose(counts, torch.tensor([0.1, 0.0, 0.6, 0.3], dtype=torch.float64), atol=0.015)
