"""The sampler's cache: with room to grow it has what transformers' own has, and attention to it copies nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.models.transformers_engine import toy_model
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache, Qwen2Config
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend, growing_cache, one_token_attention
from creditflow.train.policy.packing.attention import attend_by_forest

LAYERS, HEADS, SIZE = 2, 2, 3


@pytest.fixture(scope="module")
def config():
    return Qwen2Config(
        hidden_size=HEADS * SIZE, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS
    )


blocks = st.lists(st.integers(1, 9), min_size=1, max_size=12)
kept = st.lists(st.one_of(st.none(), st.sets(st.integers(0, 2), min_size=1)), min_size=12, max_size=12)


@given(blocks, kept)
def test_it_equals_a_concatenation_whatever_is_appended_and_dropped(config, widths, choices):
    ours, theirs, rows = growing_cache(config), DynamicCache(config=config), 3
    generator = torch.Generator().manual_seed(0)
    for width, choice in zip(widths, choices, strict=False):
        for layer in range(LAYERS):
            new = [torch.randn(rows, HEADS, width, SIZE, generator=generator) for _ in range(2)]
            for mine, its in zip(ours.update(*new, layer), theirs.update(*new, layer), strict=True):
                assert torch.equal(mine, its)
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(width, 0) == theirs.get_mask_sizes(width, 0)
        if choice is not None and (places := [row for row in sorted(choice) if row < rows]):
            for cache in (ours, theirs):
                cache.batch_select_indices(torch.tensor(places))
            rows = len(places)


def test_a_token_is_not_copied_at_every_step(config):
    cache, room, moved = growing_cache(config), 0, 0
    for step in range(1000):
        states = torch.zeros(1, HEADS, 1, SIZE)
        keys, _ = cache.update(states, states, 0)
        if keys.untyped_storage().data_ptr() != room:
            room, moved = keys.untyped_storage().data_ptr(), moved + step
    assert moved < 5 * 1000  # concatenation moves 499,500


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_one_token_attends_as_in_transformers(kv_heads: int) -> None:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn((3, 4, 1, 8), generator=generator)
    key, value = (torch.randn((3, kv_heads, 11, 8), generator=generator) for _ in range(2))
    mask = torch.rand((3, 1, 1, 11), generator=generator) < 0.6
    mask[..., -1] = True
    layer = SimpleNamespace(num_key_value_groups=4 // kv_heads, is_causal=True)
    ours, _ = one_token_attention(layer, query, key, value, mask, scaling=0.3)
    theirs, _ = sdpa_attention_forward(layer, query, key, value, mask, scaling=0.3)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "padded"])
def test_decoding_repeats_no_cache_for_the_query_heads_that_share_it(
    packing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.integrations import sdpa_attention

    repeated: list[int] = []
    repeat = sdpa_attention.repeat_kv

    def counting(states: torch.Tensor, n_rep: int) -> torch.Tensor:
        repeated.append(int(states.shape[2]))
        return repeat(states, n_rep)

    monkeypatch.setattr(sdpa_attention, "repeat_kv", counting)
    model = toy_model(tied=True)
    if packing:  # the default of training, which gives the model an attention of its own
        attend_by_forest(model)
    requests = [GenerationRequest(i, np.arange(4, 9 + i, dtype=np.int32), np.full(6, 0.5)) for i in range(2)]
    TransformersBackend(model).generate(requests, Sampling(max_new_tokens=6), frozenset())
    assert set(repeated) <= {6}  # of the prompt alone, whose width is 6; never of the growing cache
    assert "sdpa" not in ALL_ATTENTION_FUNCTIONS._local_mapping
