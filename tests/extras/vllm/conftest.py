"""The vLLM tier: without vLLM every test here is skipped with the reason; ``--require vllm`` makes that a failure.

Engines are opened once, because starting one takes seconds; several share one process.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
from helpers.models.vllm_model import made_model

KINDS = {"tied": ("qwen2", True), "untied": ("qwen3", False)}
_opened: dict[str, tuple[Any, Any]] = {}


@pytest.fixture(autouse=True, scope="session")
def vllm_is_there() -> None:
    if find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: bash .ci/run vllm installs its build for CPUs")
    import torch

    torch.set_num_threads(1)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Whether input and output embeddings are one matrix."""
    return str(request.param)


@pytest.fixture
def pair(kind: str) -> tuple[Any, Any]:
    """A trained model and the sampler that follows it, in float32, synced."""
    from creditflow.agents.backends.vllm.config import VllmConfig
    from creditflow.agents.backends.vllm.trained import VllmTrainedBackend

    if kind not in _opened:
        model = made_model(*KINDS[kind])
        _opened[kind] = model, VllmTrainedBackend(model, dtype="float32", config=VllmConfig(kv_gib=0.25))
    model, backend = _opened[kind]
    backend.sync("synced")
    return model, backend


@pytest.fixture
def shift() -> Callable[[Any], None]:
    """Adds small noise to every weight, as an update would."""
    import torch

    def move(model: Any) -> None:
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)

    return move
