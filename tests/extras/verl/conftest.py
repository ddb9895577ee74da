"""The verl tier: without verl every test here is skipped with the reason; ``--require verl`` makes that a failure.

Everything runs on verl's own types and functions, on a CPU. ``Server`` replaces the inference servers.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.servers.verl_parts import Server, random_server
from helpers.worlds.sokoban_episodes import sokoban_options

from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory


@pytest.fixture(autouse=True, scope="session")
def verl_is_there() -> None:
    with warnings.catch_warnings():  # verl warns of engines that are not installed
        warnings.simplefilter("ignore")
        pytest.importorskip("verl", reason="verl is not installed: pip install -e '.[verl]'")
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
    return sokoban_options(tmp_path)


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

        from creditflow.train.engines.verl import rows_of
        from creditflow.train.rollout.tasks import training_tasks
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

        from creditflow.agents.language_model.pretrained import open_tokenizer

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


@pytest.fixture(scope="session")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """verl's TransferQueue, on a Ray cluster of its own."""
    import tempfile

    import ray
    import transfer_queue as tq
    from hydra import compose, initialize_config_module

    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        config = compose(
            "ppo_trainer",
            overrides=[
                "transfer_queue.enable=true", "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
                "transfer_queue.backend.SimpleStorage.total_storage_size=4000",
            ],
        ).transfer_queue  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ray") as folder, warnings.catch_warnings():  # sockets need short names
        warnings.simplefilter("ignore")
        ray.init(address="local", _temp_dir=folder, num_cpus=16, include_dashboard=False, logging_level="ERROR")
        try:
            tq.init(config)
            yield tq
            tq.close()
        finally:
            ray.shutdown()


@pytest.fixture
def played(queue: Any, config_of: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """Groups played by verl's queue worker; returns the batch that its sampler would pass to the trainer."""

    def run(
        config: Any, names: list[str], *, lose: int = 0, moved: float = 0.0, env: Any = None, server: Any = None
    ) -> Any:
        from tensordict import TensorDict
        from transfer_queue import KVBatchMeta
        from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

        from creditflow.agents.language_model.pretrained import open_tokenizer
        from creditflow.train.engines.verl import rows_of
        from creditflow.train.rollout.tasks import training_tasks
        from creditflow.train.settings.schema import EnvConfig, TaskConfig

        env = env or EnvConfig(name="sokoban", options=options)
        tasks = training_tasks(env, TaskConfig(), seed=0)
        tokenizer = open_tokenizer(config.actor_rollout_ref.model.path)
        worker_class = AgentLoopWorkerTQ.__ray_metadata__.modified_class
        worker = worker_class(config, server or random_server(tokenizer))

        async def groups() -> None:
            for uid, row in zip(names, rows_of(env.name, tasks), strict=False):
                prompt = {
                    "uid": uid, "raw_prompt": row["prompt"], "extra_info": row["extra_info"], "global_steps": 1,
                    "agent_name": row["agent_name"],
                }  # fmt: skip
                trajectory = {"step": 1, "sample_index": 0, "rollout_n": 0, "validate": False}
                await worker._run_prompt(
                    prompt, {"temperature": 1.0, "logprobs": True}, trajectory=trajectory, trace=False
                )

        asyncio.run(groups())
        found = queue.kv_list()["train"]
        keys = [key for key in found if key.rsplit("_", 2)[0] in names and key not in names]
        for uid in names:
            assert found[uid]["status"] == "finished"
        keys = keys[lose:]
        # in place of verl's actor: the sampler's log-probabilities plus ``moved``
        sampled = queue.kv_batch_get(keys=keys, partition_id="train", select_fields=["rollout_log_probs"])
        old = TensorDict({"old_log_probs": sampled["rollout_log_probs"] + moved}, batch_size=len(keys))
        queue.kv_batch_put(keys=keys, partition_id="train", fields=old)
        return KVBatchMeta(partition_id="train", keys=keys, tags=[found[key] for key in keys])

    return run
