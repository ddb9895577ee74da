"""Truncated sampling: the trainer's distributions are the sampler's, and their gradient is that of the truncated policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.backends.base import Sampling
from creditflow.agents.backends.token_sampling import kept_tokens, token_probabilities
from creditflow.train.policy.batching import batches_of
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.losses import LossConfig
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.policy.nucleus import Nuclei, allowed_tokens, nuclei_of
from creditflow.train.policy.old_logprobs import OldLogprobs
from creditflow.train.policy.optimizer import make_optimizer
from creditflow.train.policy.samples import Row
from creditflow.train.policy.update import update_policy
from creditflow.train.settings.schema import UpdateConfig

NUCLEUS = Sampling(top_p=0.7)


@pytest.fixture(scope="module")
def model() -> Any:
    config = ScratchConfig(hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=280, init=0.3)
    return build_model(config, build_tokenizer(["Pa1 Oa2 Xa3 up down"] * 4, config), seed=3)


def rows_sampled(model: Any, seed: int = 0) -> list[Row]:
    """Four rows whose last three tokens were sampled from the truncated distribution, with the sampler's log-probabilities."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, prompt in enumerate([3, 5, 4, 6]):
        ids = rng.integers(5, 270, prompt).tolist()
        logprobs = []
        for _ in range(3):
            with torch.no_grad():
                probs = token_probabilities(model(input_ids=torch.tensor([ids])).logits[:, -1].float(), NUCLEUS)[
                    0
                ].numpy()
            token = int(rng.choice(len(probs), p=probs))
            logprobs.append(np.log(probs[token]))
            ids.append(token)
        rows.append(
            Row(
                np.array(ids, np.int32), np.arange(prompt, prompt + 3), rng.normal(size=3),
                np.array(logprobs, np.float32), np.zeros(3, np.int32), i,
            )
        )  # fmt: skip
    return rows


def test_the_trainers_log_probabilities_are_those_that_the_sampler_sampled_with(model: Any) -> None:
    rows = rows_sampled(model)
    [batch] = batches_of(rows, 4096, torch.device("cpu"))
    with torch.no_grad():
        found = token_logprobs(model, batch, truncation=NUCLEUS, logits_chunk=5)
        stored = token_logprobs(model, batch, truncation=NUCLEUS, nuclei=found.nuclei, logits_chunk=5)
        whole = token_logprobs(model, batch)
    expected = np.concatenate([rows[i].sampler_logprob for i in batch.rows])
    assert found.logprob.tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert stored.logprob.tolist() == found.logprob.tolist()
    assert (found.logprob > whole.logprob).all()
    assert (found.entropy < whole.entropy).all()
    assert found.nuclei is not None
    assert len(found.nuclei.sizes) == 12
    assert stored.nuclei is None


@pytest.mark.parametrize("multistep", [False, True])
def test_the_gradient_is_that_of_the_truncated_policy_and_a_constant_advantage_has_none_on_average(
    model: Any, multistep: bool
) -> None:
    """E_{a ~ π_N}[∇ log π_N(a)] = 0 exactly; with log-probabilities of the whole distribution it is not."""
    prompt = np.array([7, 20, 33, 90], np.int32)
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(prompt.astype(np.int64))[None]).logits[:, -1].float()
    probs = token_probabilities(logits, NUCLEUS)[0].numpy()
    kept = np.flatnonzero(probs)
    assert 2 < len(kept) < 200
    # every token of the nucleus once, with its probability as the advantage: the exact expectation of the gradient
    rows = [
        Row(
            np.append(prompt, token).astype(np.int32), np.array([4]), np.array([probs[token]]),
            np.log(probs[[token]]).astype(np.float32), np.zeros(1, np.int32), i,
        )
        for i, token in enumerate(kept)
    ]  # fmt: skip
    old = OldLogprobs(None)
    if multistep:
        mask = torch.zeros(1, logits.shape[-1], dtype=torch.bool)
        mask[0, kept] = True
        old = OldLogprobs([row.sampler_logprob for row in rows], nuclei=[nuclei_of(mask)] * len(rows))

    def norm(truncation: Sampling | None) -> float:
        config = UpdateConfig(loss=LossConfig(importance_cap=0.0), epochs=1)
        optimizer = make_optimizer(model, config.optimizer)
        optimizer.step = lambda: None
        given_ = old if truncation is not None else OldLogprobs(None)
        return update_policy(
            model, optimizer, rows, given_, config, aggregation="token_mean", temperature=1.0, lr=1e-3,
            rng=np.random.default_rng(0), truncation=truncation,
        )["grad_norm"]  # fmt: skip

    # the advantages come from a forward pass of another shape: on some processors its logits differ by 1e-5
    assert norm(NUCLEUS) < 1e-4 * norm(None)


def test_the_first_ratio_is_exactly_one_and_the_sampler_does_not_differ(model: Any) -> None:
    rows = rows_sampled(model, 1)
    config = UpdateConfig()
    metrics = update_policy(
        model, make_optimizer(model, config.optimizer), rows, OldLogprobs(None), config, aggregation="token_mean",
        temperature=1.0, lr=0.0, rng=np.random.default_rng(0), truncation=NUCLEUS,
    )  # fmt: skip
    assert metrics["first_step_ratio_deviation"] == 0.0
    assert metrics["sampler_mismatch_max"] < 1e-5


@settings(max_examples=50)
@given(st.integers(0, 2**31), st.floats(0.05, 0.99), st.integers(0, 6))
def test_a_nucleus_is_the_samplers_support_and_survives_storage(seed: int, top_p: float, top_k: int) -> None:
    sampling = Sampling(top_p=top_p, top_k=top_k)
    logits = torch.from_numpy(np.random.default_rng(seed).normal(0.0, 2.0, (4, 11)))
    target = torch.from_numpy(np.random.default_rng(seed).integers(0, 11, 4))
    support = token_probabilities(logits, sampling) > 0
    expected = support.scatter(-1, target[:, None], True)
    mask = allowed_tokens(logits, target, sampling)
    assert torch.equal(mask, expected)
    assert torch.equal(kept_tokens(torch.softmax(logits, -1), sampling), support)
    nuclei = nuclei_of(mask)
    assert torch.equal(allowed_tokens(logits, target, sampling, nuclei), expected)
    parts = nuclei.split([1, 0, 3])
    assert [len(part.sizes) for part in parts] == [1, 0, 3]
    joined = Nuclei.concatenate(parts)
    assert np.array_equal(joined.ids, nuclei.ids)
    assert np.array_equal(joined.sizes, nuclei.sizes)
    assert torch.equal(allowed_tokens(logits[[2]], target[[2]], sampling, nuclei.select(np.array([2]))), expected[[2]])
