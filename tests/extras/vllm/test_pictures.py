"""vLLM reads the pictures of a vision-language model as the trained model does, after every push of its weights."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.vllm.config import VllmConfig

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.vllm_pictures,  # not required by the tier: torchvision has no build for CPUs on PyPI
    pytest.mark.skipif(
        find_spec("torchvision") is None, reason="vLLM's processors of vision-language models need torchvision"
    ),
]


def requests(tokenizer: Any) -> list[GenerationRequest]:
    """A text, prompts with a picture each, and one with two."""
    from creditflow.agents.models.pictures import pictures_of

    encoder, rng = pictures_of(tokenizer), np.random.default_rng(0)
    assert encoder is not None
    found = []
    for i, count in enumerate((0, 1, 1, 2)):
        sizes = (28 * (2 + i), 84, 3)
        pictures = tuple(encoder.encode(rng.integers(0, 256, sizes, dtype=np.uint8)) for _ in range(count))
        text = "up " + "<|vision_start|><|image_pad|><|vision_end|> left " * count
        ids = np.asarray(tokenizer.encode(text, add_special_tokens=False), np.int32)
        found.append(GenerationRequest(i, encoder.expand(ids, pictures), rng.random(8), pictures))
    return found


def own_logprobs(model: Any, request: GenerationRequest, completion: Any) -> np.ndarray[Any, Any]:
    from creditflow.agents.models.vision import completion_logits, picture_tensors, rope_positions

    ids = np.concatenate([request.ids, completion.ids])
    with torch.no_grad():
        logits = model.eval()(
            input_ids=torch.from_numpy(ids.astype(np.int64))[None],
            position_ids=torch.from_numpy(rope_positions(ids, request.pictures))[:, None],
            **picture_tensors(request.pictures, "cpu"),
        ).logits[0, len(request.ids) - 1 : -1]
    table = torch.log_softmax(completion_logits(model, logits), -1).numpy()
    return np.asarray(table[np.arange(len(completion.ids)), completion.ids])


@pytest.mark.parametrize("architecture", ["qwen2_5_vl", "qwen3_vl"])
def test_log_probabilities_are_those_of_the_trained_model_after_every_push(
    architecture: str, shift: Callable[[Any], None]
) -> None:
    from helpers.models.vllm_model import made_policy

    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend

    model, tokenizer = made_policy(architecture, True)
    backend = VllmTrainedBackend(model, dtype="float32", config=VllmConfig(kv_gib=0.25), tokenizer=tokenizer)
    for version in ("first", "second"):  # the second meets the first one's pictures in the engine's caches
        backend.sync(version)
        assert backend.sync_numbers["push_difference"] < 1e-4
        asked = requests(tokenizer)
        for request, completion in zip(
            asked, backend.generate(asked, Sampling(max_new_tokens=8), frozenset({1})), strict=True
        ):
            np.testing.assert_allclose(completion.logprobs, own_logprobs(model, request, completion), atol=1e-4)
        shift(model)
