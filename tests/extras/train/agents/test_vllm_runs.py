"""Training runs that sample with vLLM: calls in order, logged pushes, and settings that are rejected before a run.

The engine computes with transformers; vLLM itself is tested in the tier vllm.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.models.transformers_engine import TransformersEngine, toy_model

from creditflow.agents.backends.base import WeightPushError
from creditflow.agents.backends.vllm.engine import VllmEngine
from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.train.policy.failures import MemoryLimitError
from creditflow.train.run import assemble


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[TransformersEngine]:
    """The engines of training runs with ``generation.backend: vllm``."""
    from creditflow.agents.backends.vllm import trained as vllm_trained

    made: list[TransformersEngine] = []

    def opened(*_: Any) -> Callable[[str], TransformersEngine]:
        def make(folder: str) -> TransformersEngine:
            made.append(TransformersEngine(folder))
            return made[-1]

        return make

    monkeypatch.setattr(vllm_trained, "_engine_maker", opened)
    return made


def test_a_run_syncs_plays_and_sleeps_in_turn_and_logs_every_push(
    config: dict[str, Any], trainer_of: Callable[..., Any], engines: list[TransformersEngine]
) -> None:
    run = trainer_of(config, "generation.backend=vllm", "update.iterations=2")
    run.run()
    [engine] = engines
    order = [entry for i, entry in enumerate(engine.calls) if entry != "complete" or engine.calls[i - 1] != entry]
    push = ["wake weights", "receive", "wake kv_cache", "reset_prefix_cache", "probe"]
    assert order == ["receive", "reset_prefix_cache", "probe", *["complete", "sleep", *push] * 2]
    rows = [json.loads(line) for line in (Path(config["out"]) / "metrics.jsonl").read_text().splitlines()]
    pushes = [row for row in rows if "push_difference" in row]
    assert len(pushes) == 2
    assert all(row["push_difference"] < 1e-4 and row["sampler_mismatch_max"] < 1e-4 for row in pushes)


def test_a_push_that_fails_ends_the_run(
    config: dict[str, Any], trainer_of: Callable[..., Any], engines: list[TransformersEngine]
) -> None:
    run = trainer_of(config, "generation.backend=vllm", "update.optimizer.lr=0.05")
    engines[0].lose = {"receive"}
    with pytest.raises(WeightPushError, match="rl-0000001"):
        run.run()


@pytest.mark.parametrize("call", ["complete", "wake"])
def test_an_engine_that_runs_out_of_memory_names_its_share_of_the_gpu(
    config: dict[str, Any],
    trainer_of: Callable[..., Any],
    engines: list[TransformersEngine],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    class Full:
        def generate(self) -> None:
            raise RuntimeError("CUDA Error: out of memory at csrc/cumem_allocator.cpp:62")

    run = trainer_of(config, "generation.backend=vllm")
    full = object.__new__(VllmEngine)
    full._llm, full._broken = Full(), None
    monkeypatch.setattr(engines[0], call, lambda *_: full._call("generate"))
    with pytest.raises(MemoryLimitError, match=r"lower generation\.vllm\.memory, or set generation\.vllm\.sleep=true"):
        run.run()


def test_settings_of_the_other_backend_are_rejected(config: dict[str, Any], settings_of: Callable[..., Any]) -> None:
    for wrong, message in (
        ("rollout.branching.max_trajectories=16", "entropies"),
        ("generation.backend=vlm", "did you mean 'vllm'"),
        ("generation.vllm.block=3", "did you mean 'block_size'"),
    ):
        with pytest.raises(ConfigError, match=message):
            settings_of(config | {"generation": {"backend": "vllm"}}, wrong)


def test_a_run_without_vllm_installed_is_an_error_and_writes_nothing_and_its_dry_run_says_so(
    config: dict[str, Any],
    trainer_of: Callable[..., Any],
    settings_of: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from creditflow.agents.backends.vllm import release as vllm_release
    from creditflow.train.dry_run import describe

    monkeypatch.setattr(vllm_release, "_version", lambda name: None)
    with pytest.raises(MissingExtraError, match="vllm"):
        trainer_of(config, "generation.backend=vllm")
    describe(settings_of(config, "generation.backend=vllm", "device=auto"))
    printed = capsys.readouterr().err
    assert "the sampler was not checked: vllm" in printed
    assert "# memory: " in printed  # a line to plan by
    assert not Path(config["out"]).exists()


def test_the_sampler_computes_in_the_dtype_of_the_setting(
    config: dict[str, Any], settings_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from creditflow.agents.backends.vllm import trained as vllm_trained

    dtypes: list[str] = []

    def opened(dtype: str, *_: Any) -> Callable[[str], TransformersEngine]:
        dtypes.append(dtype)
        return TransformersEngine

    monkeypatch.setattr(vllm_trained, "_engine_maker", opened)
    for setting in ("same", "bfloat16"):
        assemble.make_backend(
            toy_model(tied=True), settings_of(config, "generation.backend=vllm", f"rollout.dtype={setting}")
        )
    assert dtypes == ["float32", "bfloat16"]
