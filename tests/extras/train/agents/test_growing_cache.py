"""A cache with room to grow holds what transformers' own holds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DynamicCache, Qwen2Config

from creditflow.agents.backends.transformers_backend import growing_cache

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
