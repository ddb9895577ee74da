"""The probe of a push with a picture: nothing where both towers are the same, and a difference where only they differ."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from helpers.models.toy_config import toy_vision_config

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.engine import UniquePrompt
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.backends.vllm.trained import picture_differences
from creditflow.agents.models.pictures import pictures_of


class OwnEngine:
    """An engine that samples with ``transformers``."""

    def __init__(self, model: Any) -> None:
        self.backend = TransformersBackend(model)

    def complete(self, prompts: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int], seed: int) -> Any:
        uniforms = np.random.default_rng(seed).random(sampling.max_new_tokens)
        return [
            [self.backend.generate([GenerationRequest(0, one.ids, uniforms, one.pictures)], sampling, end_ids)[0]]
            for one in prompts
        ]


def test_only_a_push_that_left_the_tower_behind_is_found(
    tmp_path: Path, architecture: str, policy_of: Callable[..., Any]
) -> None:
    _, model, tokenizer = policy_of(toy_vision_config(tmp_path, architecture))
    encoder = pictures_of(tokenizer)
    assert encoder is not None
    engine: Any = OwnEngine(copy.deepcopy(model))
    assert picture_differences(model, engine, encoder).max() < 1e-4
    assert model.training
    with torch.no_grad():
        engine.backend.model.model.visual.patch_embed.proj.weight.mul_(-1.0)
    assert picture_differences(model, engine, encoder).max() > 1e-3
