"""Prompts with pictures for engines: vLLM gets one image token per picture, and servers that take ids alone get none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.engine import deduplicate_prompts
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.agents.backends.vllm.parts import completion_parameters
from creditflow.agents.backends.vllm.picture_prompts import check_prompt, collapsed, vllm_prompt
from creditflow.envs.errors import ConfigError, DataError
from creditflow.wrappers.records.pictures import EncodedPicture, picture_of

TOKEN = 7
UNIFORMS = np.zeros(4)


def encoded(rows: int, columns: int, seed: int = 0) -> EncodedPicture:
    pixels = np.random.default_rng(seed).integers(0, 256, (4 * rows, 4 * columns, 3), dtype=np.uint8)
    patches = np.zeros((4 * rows * columns, 12), np.float32)
    return EncodedPicture(picture_of(pixels), patches, (1, 2 * rows, 2 * columns), 2, TOKEN)


def sequence(shown: list[tuple[int, int, int]]) -> tuple[Any, Any, tuple[EncodedPicture, ...]]:
    """Ids with one image token per picture, with all of them, and the pictures."""
    pictures = tuple(encoded(rows, columns, i) for i, (_, rows, columns) in enumerate(shown))
    short, whole = [1], [1]
    for (texts, _, _), picture in zip(shown, pictures, strict=True):
        short += [*[2] * texts, 5, TOKEN, 6]
        whole += [*[2] * texts, 5, *[TOKEN] * picture.length, 6]
    return np.array(short, np.int32), np.array(whole, np.int32), pictures


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(1, 5)), max_size=4))
def test_vllm_gets_one_image_token_per_picture(shown: list[tuple[int, int, int]]) -> None:
    short, whole, pictures = sequence(shown)
    np.testing.assert_array_equal(collapsed(whole, pictures), short)
    prompt = vllm_prompt(whole, pictures)
    assert prompt["prompt_token_ids"] == short.tolist()
    images = prompt.get("multi_modal_data", {"image": []})["image"]
    assert [np.asarray(image).tolist() for image in images] == [one.picture.pixels.tolist() for one in pictures]
    assert set(prompt) == {"prompt_token_ids"} | ({"multi_modal_data"} if pictures else set())


def test_a_prompt_that_the_engine_read_otherwise_is_an_error() -> None:
    _, whole, pictures = sequence([(2, 3, 3)])
    check_prompt(SimpleNamespace(prompt_token_ids=whole.tolist()), whole, pictures)
    with pytest.raises(GenerationError, match="instead of the 14"):
        check_prompt(SimpleNamespace(prompt_token_ids=whole.tolist()[:-1]), whole, pictures)
    with pytest.raises(DataError, match=r"8 image tokens.*stand for 9"):
        vllm_prompt(np.delete(whole, 5), pictures)


def test_the_engine_never_writes_the_image_token() -> None:
    assert completion_parameters(Sampling(), frozenset({3}), TOKEN)["logit_bias"] == {TOKEN: -100.0}
    assert "logit_bias" not in completion_parameters(Sampling(), frozenset({3}))


def test_equal_ids_with_other_pictures_are_other_prompts() -> None:
    _, whole, pictures = sequence([(0, 2, 2)])
    other = (encoded(2, 2, 9),)
    requests = [GenerationRequest(i, whole, UNIFORMS, shown) for i, shown in enumerate((pictures, other, pictures))]
    assert [one.places for one in deduplicate_prompts(requests)] == [(0, 2), (1,)]
    assert [one.pictures for one in deduplicate_prompts(requests)] == [pictures, other]


def test_a_served_model_refuses_pictures_by_name() -> None:
    _, whole, pictures = sequence([(0, 2, 2)])
    backend = OpenAIBackend(SimpleNamespace(), "m", lambda _: whole)
    request = GenerationRequest(0, whole, UNIFORMS, pictures)
    with pytest.raises(ConfigError, match=r"OpenAI-compatible server.*no pictures"):
        backend.generate([request], Sampling(), frozenset())
