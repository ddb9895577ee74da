"""The host of a vLLM engine keeps its random states, and equal calls find equal states whichever runner draws from them."""

from __future__ import annotations

import random  # noqa: TID251 - the global state, which vLLM uses
from typing import Any

import numpy as np
import torch

from creditflow.agents.backends.vllm.config import VllmConfig
from creditflow.agents.backends.vllm.engine import VllmEngine
from creditflow.agents.backends.vllm.parts import engine_options, unchanged_host


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, TID251 - the global state, which vLLM uses
    torch.manual_seed(seed)


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: NPY002 - the global states


def test_the_random_states_of_the_host_are_unchanged() -> None:
    seed_everything(1)
    expected = draws()
    seed_everything(1)
    with unchanged_host():
        seed_everything(7)
        draws()
    assert draws() == expected


def test_equal_calls_find_equal_states_of_torch_and_numpy() -> None:
    class Drawing:
        def generate(self, *_args: Any, **_options: Any) -> list[tuple[float, float]]:
            return [(float(np.random.random()), float(torch.rand(())))]  # noqa: NPY002 - the newer runner draws here

    engine = object.__new__(VllmEngine)
    engine._llm, engine._broken = Drawing(), None
    first, again, other = (engine._generate([], [], seed) for seed in (5, 5, 2**62 + 1))
    assert first == again
    assert all(a != b for a, b in zip(first[0], other[0], strict=True))


def test_graphs_are_captured_on_a_gpu_unless_a_setting_refuses_them(tmp_path: Any) -> None:
    (tmp_path / "config.json").write_text("{}")

    def eager(config: VllmConfig, *, on_cpu: bool) -> Any:
        options = engine_options(str(tmp_path), "bfloat16", config, 0, empty=True, on_cpu=on_cpu)
        return options["enforce_eager"]

    assert not eager(VllmConfig(), on_cpu=False)
    assert eager(VllmConfig(eager=True), on_cpu=False)
    assert eager(VllmConfig(), on_cpu=True)
