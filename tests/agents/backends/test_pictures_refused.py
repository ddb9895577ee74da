"""Engines and servers that take token ids alone refuse pictures by name."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.agents.backends.vllm.backend import VllmBackend
from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.parts import engine_options
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.records.pictures import EncodedPicture, picture_of

IDS = np.array([1, 5, 7, 7, 6], np.int32)


@pytest.mark.parametrize("kind", ["vLLM", "server"])
def test_a_prompt_with_pictures_is_refused(kind: str) -> None:
    picture = EncodedPicture(picture_of(np.zeros((4, 8, 3), np.uint8)), np.zeros((8, 12), np.float32), (1, 2, 4), 2, 7)
    engine: Any = SimpleNamespace(context=0)
    backend = VllmBackend(engine) if kind == "vLLM" else OpenAIBackend(engine, "m", lambda _: IDS)
    request = GenerationRequest(0, IDS, np.zeros(4), (picture,))
    with pytest.raises(ConfigError, match=r"carry no pictures: use generation\.backend: transformers"):
        backend.generate([request], Sampling(), frozenset())


def test_a_vision_language_model_is_refused_before_the_engine_starts(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_vl", "image_token_id": 7}), encoding="ascii")
    with pytest.raises(ConfigError, match=r"this one reads pictures: use generation\.backend: transformers"):
        engine_options(str(tmp_path), "float32", VllmConfig(), 0, empty=True, on_cpu=True)
