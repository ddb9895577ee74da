"""The verl tier: without verl every test here is skipped with the reason; ``--require verl`` makes that a failure.

Everything runs on verl's own types and functions, on a CPU. ``Server`` replaces the inference servers.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.verl_parts import LEVELS, Server

from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory


@pytest.fixture(autouse=True, scope="session")
def verl_is_there() -> None:
    with warnings.catch_warnings():  # verl warns of engines that are not installed
        warnings.simplefilter("ignore")
        pytest.importorskip("verl", reason="verl is not installed: pip install 'creditflow[verl]'")
        importlib.import_module("verl.trainer.main_ppo")
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen2 and its tokenizer."""
    from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer

    config = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=280, init=0.2,
        pattern=" ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model")
    tokenizer = build_tokenizer(["up down left right"] * 8, config)
    tokenizer.save_pretrained(folder)
    build_model(config, tokenizer, seed=3).save_pretrained(folder)
    return folder


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Options of the environment: Sokoban on three levels."""
    levels = tmp_path / "levels.txt"
    levels.write_text("\n\n".join(LEVELS) + "\n", encoding="ascii")
    return {"levels": str(levels), "max_steps": 5, "symbols": "ascii"}


@pytest.fixture(scope="session")
def composed(model_folder: Path) -> Callable[..., Any]:
    """verl's complete config, composed from its defaults and these overrides as by its command; cached."""
    from functools import cache

    @cache
    def make(*overrides: str) -> Any:
        from hydra import compose, initialize_config_module

        with initialize_config_module(config_module="verl.trainer.config", version_base=None):
            return compose(
                "ppo_trainer",
                overrides=[
                    "algorithm.adv_estimator=creditflow", f"actor_rollout_ref.model.path={model_folder}",
                    "actor_rollout_ref.rollout.agent.default_agent_loop=creditflow", "actor_rollout_ref.rollout.n=4",
                    "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.prompt_length=64",
                    "actor_rollout_ref.rollout.response_length=256",
                    "actor_rollout_ref.rollout.calculate_log_probs=true", "critic.enable=false", *overrides,
                ],
            )  # fmt: skip

    return make


@pytest.fixture
def config_of(composed: Callable[..., Any], options: dict[str, Any], tmp_path: Path) -> Callable[..., Any]:
    """verl's config with a loop on Sokoban; keyword arguments are settings of the loop."""

    def make(*overrides: str, **loop: Any) -> Any:
        settings = {
            "name": "creditflow", "_target_": "creditflow.train.adapters.verl.loop.CreditAgentLoop",
            "env": {"name": "sokoban", "options": options},
            "prompting": {"prompt": "places-v1", "dialect": "bare"}, "max_new_tokens": 6, **loop,
        }  # fmt: skip
        path = tmp_path / "loop.json"  # YAML reads JSON
        path.write_text(json.dumps([settings]), encoding="ascii")
        config = copy.deepcopy(composed(*overrides))
        config.actor_rollout_ref.rollout.agent.agent_loop_config_path = str(path)
        return config

    return make


@pytest.fixture
def play(config_of: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """verl's own agent-loop worker, playing whole groups against a given server; returns its ``DataProto``."""
    import asyncio

    def run(server: Server, *, groups: int = 2, config: Any = None) -> Any:
        from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
        from verl.protocol import DataProto

        from creditflow.train.adapters.verl.data import rows_of
        from creditflow.train.run.assemble import training_tasks
        from creditflow.train.settings.schema import EnvConfig, TaskConfig

        config = config or config_of()
        tasks = training_tasks(EnvConfig(name="sokoban", options=options), TaskConfig(), seed=0)[:groups]
        size = config.actor_rollout_ref.rollout.n
        rows = [row for row in rows_of("sokoban", tasks) for _ in range(size)]
        columns: dict[str, Any] = {
            name: np.array([row[name] for row in rows], object) for name in ("agent_name", "extra_info")
        }
        columns["raw_prompt"] = np.empty(len(rows), object)
        columns["raw_prompt"][:] = [row["prompt"] for row in rows]
        columns["uid"] = np.array([f"uid{i // size}" for i in range(len(rows))], object)
        columns["session_id"] = np.array([i % size for i in range(len(rows))], object)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            worker = AgentLoopWorker(config, server)
            batch = DataProto(non_tensor_batch=columns)
            return asyncio.run(worker.generate_sequences(batch))

    return run


def output_of(trajectory: Trajectory) -> Any:
    """The episode as verl's agent loops return one."""
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

    tokens = trajectory.tokens
    assert tokens is not None
    first = int(np.argmax(tokens.mask))
    return AgentLoopOutput(
        prompt_ids=tokens.ids[:first].tolist(),
        response_ids=tokens.ids[first:].tolist(),
        response_mask=tokens.mask[first:].astype(int).tolist(),
        response_logprobs=tokens.logprobs[first:].tolist(),
        reward_score=trajectory.episode_return,
        metrics=AgentLoopMetrics(),
        extra_fields={FIELD: EpisodeRecord.of(trajectory).encode()},
    )


@pytest.fixture
def batch_of(config_of: Callable[..., Any]) -> Callable[..., Any]:
    """Groups as the batch that verl's own worker makes of its loops' outputs."""

    def make(groups: list[Group], order: Any = None) -> Any:
        from verl.experimental.agent_loop.agent_loop import AgentLoopWorker

        from creditflow.agents.language_model.models.pretrained import open_tokenizer

        config = config_of()
        worker = object.__new__(AgentLoopWorker)
        worker.rollout_config = config.actor_rollout_ref.rollout
        worker.tokenizer = open_tokenizer(config.actor_rollout_ref.model.path)
        worker.processor, worker.mm_processor_kwargs = None, {}
        worker.reward_loop_worker_handles, worker.distillation_enabled = None, False
        members = [(group.group_id, member) for group in groups for member in group.trajectories]
        members = members if order is None else [members[i] for i in order]

        async def padded() -> list[Any]:
            return [
                await worker._agent_loop_postprocess(output_of(member), False, raw_prompt=[]) for _, member in members
            ]

        uids = np.array([uid for uid, _ in members], object)
        return worker._postprocess(asyncio.run(padded()), input_non_tensor_batch={"uid": uids})

    return make
