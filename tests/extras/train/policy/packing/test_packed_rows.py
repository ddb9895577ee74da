"""Packed rows, which share what they have in common, give the numbers of rows alone; and no token is computed twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models.largest_tensor import LargestTensor
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from creditflow.agents.backends.base import Sampling
from creditflow.envs.errors import ConfigError
from creditflow.train.policy.batching import Packing, batches_of
from creditflow.train.policy.critic import Critic
from creditflow.train.policy.logprobs import token_logprobs
from creditflow.train.policy.network.options import autocast, recompute_activations
from creditflow.train.policy.packing.attention import NAME, check_packing
from creditflow.train.policy.samples import Row
from creditflow.train.settings.update import CriticConfig

CPU = torch.device("cpu")
SIZES: dict[str, Any] = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "initializer_range": 0.3,
}  # fmt: skip
FAMILIES: dict[str, Any] = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
PACKINGS: tuple[Packing, ...] = ("padded", "packed")
WHOLE = 100_000  # tokens: one micro-batch


def make_model(family: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(FAMILIES[family](**SIZES, **options), attn_implementation="sdpa")


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    return make_model(request.param)


def row(ids: Any, target: Any, trajectory: int = 0, turn: int = -1) -> Row:
    ids, target = np.asarray(ids, np.int32), np.asarray(target, np.int64)
    n = len(target)
    rng = np.random.default_rng(n + trajectory)
    return Row(ids, target, rng.normal(size=n), np.full(n, -3.0, np.float32), np.zeros(n, np.int32), trajectory, turn)


def group(size: int, prompt: int, responses: list[int]) -> list[Row]:
    """Responses to one prompt."""
    rng = np.random.default_rng(size)
    start = rng.integers(0, 40, prompt)
    ids = [np.concatenate([start, rng.integers(0, 40, responses[i % len(responses)])]) for i in range(size)]
    return [row(one, np.arange(prompt, len(one)), i) for i, one in enumerate(ids)]


def turns_of(count: int, read: int, written: int) -> list[Row]:
    """Rows of the turns of one append-only episode."""
    ids = np.random.default_rng(count).integers(0, 40, count * (read + written))
    ends = [(t + 1) * (read + written) for t in range(count)]
    return [row(ids[:end], np.arange(end - written, end), 0, t) for t, end in enumerate(ends)]


def windows(size: int, turns: int) -> list[Row]:
    """Rows of a group with windowed histories: the same system prompt, states that repeat, short responses."""
    rng = np.random.default_rng(turns)
    system, states = rng.integers(0, 40, 9), rng.integers(0, 40, (4, 6))
    rows = []
    for i in range(size):
        for t in range(turns):
            ids = np.concatenate([system, states[rng.integers(4)], rng.integers(0, 3, 2)])
            rows.append(row(ids, np.arange(15, 17), i, t))
    return rows


CASES = {
    "a group": group(6, 20, [9, 4, 13]),
    "rows of turns": turns_of(6, 7, 4),
    "windowed rows of a group": windows(5, 6),
    "nothing in common": [row(np.r_[i, np.arange(i, i + 9)], [1, 4, 9], i) for i in range(6)],
    "equal rows, and rows that are prefixes of others": [
        row([5, 6, 7, 8, 9], [2, 4], 0), row([5, 6, 7, 8, 9], [2, 3, 4], 1), row([5, 6, 7], [1, 2], 2), row([5, 6], [1], 3),
    ],
}  # fmt: skip


def computed(model: Any, rows: list[Row], packing: Packing, budget: int = WHOLE, **options: Any) -> dict[str, Any]:
    """Log-probabilities and entropies by row, the gradient of a function of both, and the tokens that passed the model."""
    counted: list[int] = []
    hook = (
        model.get_decoder()
        .layers[0]
        .input_layernorm.register_forward_pre_hook(  # a hook of the layer itself may stand outside of its recomputation
            lambda _, inputs: counted.append(int(inputs[0].shape[0] * inputs[0].shape[1]))
        )
    )
    model.zero_grad()
    out: dict[int, Any] = {}
    for batch in batches_of(rows, budget, CPU, packing):
        found = token_logprobs(model, batch, temperature=0.8, **options)
        advantage = torch.from_numpy(np.concatenate([rows[i].advantage for i in batch.rows]))
        (found.logprob * advantage + 0.3 * found.entropy).sum().backward()
        sizes = [len(rows[i].target) for i in batch.rows]
        parts = zip(batch.rows, found.logprob.split(sizes), found.entropy.split(sizes), strict=True)
        out |= {i: (logprob.detach(), entropy.detach()) for i, logprob, entropy in parts}
    hook.remove()
    passes = len(list(batches_of(rows, budget, CPU, packing)))
    numbers = [torch.cat([out[i][which] for i in range(len(rows))]) for which in (0, 1)]
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    return {"numbers": numbers, "gradient": gradient, "tokens": sum(counted[:passes]), "calls": len(counted)}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    torch.testing.assert_close(found["numbers"], expected["numbers"], rtol=1e-4, atol=2e-5)
    scale = float(expected["gradient"].abs().max())
    torch.testing.assert_close(found["gradient"], expected["gradient"], rtol=1e-3, atol=1e-5 * max(1.0, scale))


def distinct_prefixes(rows: list[Row]) -> int:
    return len({tuple(one.ids[:n].tolist()) for one in rows for n in range(1, len(one) + 1)})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", [WHOLE, 60, 1])
def test_log_probabilities_entropies_and_gradients_are_those_of_padded_rows(model: Any, case: str, budget: int) -> None:
    assert_same(computed(model, CASES[case], "packed", budget), computed(model, CASES[case], "padded"))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_random_rows_give_the_numbers_of_padded_ones(data: st.DataObject) -> None:
    model = make_model(data.draw(st.sampled_from(sorted(FAMILIES))))
    ids = st.lists(st.integers(0, 2), min_size=2, max_size=20)
    rows = []
    for i, one in enumerate(data.draw(st.lists(ids, min_size=1, max_size=8))):
        target = data.draw(st.sets(st.integers(1, len(one) - 1), min_size=1))
        rows.append(row(one, sorted(target), i))
    budget = data.draw(st.integers(1, 80))
    found = computed(model, rows, "packed", budget)
    assert_same(found, computed(model, rows, "padded"))
    assert computed(model, rows, "packed")["tokens"] == distinct_prefixes(rows)


@pytest.mark.parametrize("case", CASES)
def test_the_tokens_that_pass_the_model_are_the_distinct_prefixes(model: Any, case: str) -> None:
    rows = CASES[case]
    [batch] = batches_of(rows, WHOLE, CPU, "packed")
    assert computed(model, rows, "packed")["tokens"] == distinct_prefixes(rows) == batch.tokens


def test_logits_are_computed_once_for_equal_predictions(model: Any) -> None:
    rows = [row([5, 6, 7, 8], [2, 3], i) for i in range(9)] + [row([5, 6, 7, 9], [2, 3], 9)]
    [batch] = batches_of(rows, WHOLE, CPU, "packed")
    assert len(batch.target) == 3  # 7 after 5 6; 8 and 9 after 5 6 7
    seen: list[int] = []
    hook = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    token_logprobs(model, batch)
    hook.remove()
    assert seen == [3]


@pytest.mark.parametrize("case", CASES)
def test_gradient_checkpointing_repeats_layers_with_the_same_rows(case: str) -> None:
    expected = computed(make_model("qwen3"), CASES[case], "padded")
    model = make_model("qwen3")
    recompute_activations(model)
    model.train()
    found = computed(model, CASES[case], "packed")
    assert found["calls"] == 2  # the backward pass computes the layer again
    assert_same(found, expected)


def test_nuclei_of_packed_rows_are_those_of_padded_ones(model: Any) -> None:
    sampling = Sampling(top_p=0.7)
    for rows in CASES.values():
        results = []
        for packing in PACKINGS:
            with torch.no_grad():
                [batch] = batches_of(rows, WHOLE, CPU, packing)
                own = token_logprobs(model, batch, truncation=sampling, logits_chunk=5)
                again = token_logprobs(model, batch, truncation=sampling, nuclei=own.nuclei)
            assert own.nuclei is not None
            torch.testing.assert_close(own.logprob, again.logprob)
            parts = own.nuclei.split([len(rows[i].target) for i in batch.rows])
            values = own.logprob.split([len(rows[i].target) for i in batch.rows])
            results.append({i: (nuclei, one) for i, nuclei, one in zip(batch.rows, parts, values, strict=True)})
        for i in range(len(rows)):
            assert results[0][i][0].ids.tolist() == results[1][i][0].ids.tolist()
            torch.testing.assert_close(results[0][i][1], results[1][i][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_values_and_their_gradients_are_those_of_padded_rows(kind: Any) -> None:
    for rows in CASES.values():
        results = []
        for packing in PACKINGS:
            model = make_model("llama")
            critic = Critic(CriticConfig(kind=kind), model.get_decoder())
            torch.nn.init.constant_(critic.head.weight, 0.1)
            [batch] = batches_of(rows, WHOLE, CPU, packing)
            targets = [
                replace(one, value_target=np.sin(one.target), value_old=np.zeros(len(one.target))) for one in rows
            ]
            loss = critic.loss(batch, targets, len(rows))["loss"]
            loss.backward()
            trained = critic if kind == "separate" else model.get_decoder()
            results.append((loss.detach(), torch.cat([p.grad.flatten() for p in trained.parameters()])))
        torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-5)


def test_autocast_reaches_the_attention(model: Any) -> None:
    [batch] = batches_of(CASES["a group"], WHOLE, CPU, "packed")
    [padded] = batches_of(CASES["a group"], WHOLE, CPU, "padded")
    order = np.argsort(np.repeat(batch.rows, [len(CASES["a group"][i].target) for i in batch.rows]), kind="stable")
    back = np.argsort(np.repeat(padded.rows, [len(CASES["a group"][i].target) for i in padded.rows]), kind="stable")
    with torch.no_grad():
        exact = token_logprobs(model, padded).logprob[back]
        with autocast("bfloat16", CPU):
            rough = token_logprobs(model, batch).logprob[order]
    assert 0.0 < float((exact - rough).abs().max()) < 0.5


def test_a_model_with_the_attention_samples_and_pads_as_before() -> None:
    ids = torch.arange(30).view(2, 15)
    mask = torch.ones((2, 15), dtype=torch.long)
    mask[1, :4] = 0
    for family in FAMILIES:
        model = make_model(family).eval()
        with torch.no_grad():
            before = [model(input_ids=ids).logits, model(input_ids=ids, attention_mask=mask).logits]
            check_packing(model)
            after = [model(input_ids=ids).logits, model(input_ids=ids, attention_mask=mask).logits]
        assert model.config._attn_implementation == NAME
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        assert NAME not in model.config.to_json_string()


@pytest.mark.parametrize("precision", ["none", "bfloat16"])
def test_the_check_accepts_the_families_that_are_trained(model: Any, precision: str) -> None:
    check_packing(model, precision)


def test_a_sliding_window_is_rejected_before_training() -> None:
    sliding = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    mistral = AutoModelForCausalLM.from_config(MistralConfig(**SIZES, sliding_window=4), attn_implementation="sdpa")
    for model in (make_model("qwen2", **sliding), mistral):
        with pytest.raises(ConfigError, match=r"sliding_window.*update\.packing=padded"):
            check_packing(model)


def test_attention_with_dropout_is_rejected() -> None:
    model = make_model("llama", attention_dropout=0.1)
    [batch] = batches_of(CASES["a group"], WHOLE, CPU, "packed")
    with pytest.raises(ConfigError, match=r"dropout.*update\.packing=padded"):
        token_logprobs(model.train(), batch)


def test_a_family_that_ignores_the_forest_is_rejected() -> None:
    model = make_model("llama")
    layer = model.get_decoder().layers[0].self_attn
    own = layer.forward
    layer.forward = lambda forest=None, **options: own(**options)
    with pytest.raises(ConfigError, match="computes other values for packed sequences"):
        check_packing(model)


def test_a_long_packed_batch_allocates_nothing_quadratic() -> None:
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(**SIZES | {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2})
    )  # fmt: skip
    rng = np.random.default_rng(0)
    rows = [row(rng.integers(0, 40, 500), np.arange(400, 500), i) for i in range(40)]
    [batch] = batches_of(rows, WHOLE, CPU, "packed")
    assert batch.tokens > 19_900
    with LargestTensor() as largest:
        (-token_logprobs(model, batch, logits_chunk=512).logprob.sum()).backward()
    assert largest.numbers <= 64 * batch.tokens
