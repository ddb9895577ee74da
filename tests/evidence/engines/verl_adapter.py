"""Writes ``tests/evidence/engines/verl.json``: which parts of the verl adapter ran, with which versions and results.

    PYTHONPATH=src python tests/evidence/engines/verl_adapter.py        (in an environment with creditflow[verl], pytest, hypothesis)

Four parts, all on a CPU: the tests of the verl tier; a dry pass from a sampled episode to a gradient (a tiny Qwen2 plays
Sokoban in verl's agent-loop worker, credit is assigned, verl's own policy loss is differentiated and compared with
ours); the sizes that SCALING.md counts with (records, logs and texts of a turn in each environment); and how long the
advantage step takes. About five minutes on two cores.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.utils.config import omega_conf_to_dataclass

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from evidence.engines.verl_sizes import SIZE, sizes
from helpers.servers.verl_parts import Server
from helpers.worlds.sokoban_episodes import sokoban_options

from creditflow import credit
from creditflow.agents.backends.base import GenerationRequest, Sampling
from creditflow.agents.backends.transformers_backend import TransformersBackend
from creditflow.agents.language_model.pretrained import open_pretrained
from creditflow.envs.files.atomic import atomic_writer
from creditflow.train.adapters.verl.record import FIELD, EpisodeRecord
from creditflow.train.adapters.verl.trainer import assign_advantages
from creditflow.train.engines.verl import rows_of
from creditflow.train.policy.losses import LossConfig, token_losses
from creditflow.train.policy.network.scratch import ScratchConfig, build_model, build_tokenizer
from creditflow.train.rollout.tasks import training_tasks
from creditflow.train.settings.schema import EnvConfig, TaskConfig

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(__file__).with_name("verl.json")
PACKAGES = ("verl", "TransferQueue", "ray", "tensordict", "hydra-core", "transformers", "torch", "numpy")
TESTS = ["-m", "pytest", "-q", "-m", "verl", "--require", "verl", "tests/extras/verl"]


def tests() -> dict[str, Any]:
    """Run the tests of the verl tier in a process of their own, and count their outcomes."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *TESTS], cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    return {"command": "python " + " ".join(TESTS), "counts": counts, "seconds": round(time.perf_counter() - began)}


def config_for(model: Path, loop: Path) -> Any:
    """verl's config as its own command would compose it."""
    from hydra import compose, initialize_config_module

    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose(
            "ppo_trainer",
            overrides=[
                "algorithm.adv_estimator=creditflow", "+algorithm.creditflow.scheme=gigpo",
                f"actor_rollout_ref.model.path={model}", f"actor_rollout_ref.rollout.n={SIZE}",
                f"actor_rollout_ref.rollout.agent.agent_loop_config_path={loop}",
                "actor_rollout_ref.rollout.agent.default_agent_loop=creditflow", "actor_rollout_ref.rollout.name=vllm",
                "actor_rollout_ref.rollout.prompt_length=64", "actor_rollout_ref.rollout.response_length=256",
                "actor_rollout_ref.rollout.calculate_log_probs=true", "actor_rollout_ref.actor.use_dynamic_bsz=true",
            ],
        )  # fmt: skip


def sampled_by(model: Any) -> Server:
    """A server that samples from the model itself."""
    backend, rng = TransformersBackend(model), np.random.default_rng(0)

    def complete(prompt: list[int], sampling: dict[str, Any]) -> tuple[list[int], list[float] | None]:
        limit = sampling["max_tokens"]
        job = GenerationRequest(len(prompt), np.asarray(prompt, np.int32), rng.random(limit))
        ends = frozenset(sampling["stop_token_ids"])
        [one] = backend.generate([job], Sampling(max_new_tokens=limit), ends)
        return one.ids.tolist(), one.logprobs.tolist()

    return Server(complete)


def scripted(ids: list[int]) -> Server:
    """A server that always returns the same completion at once, so that only the loop takes time."""
    return Server(lambda *_: (ids, [-0.5] * len(ids)))


def _set_up(folder: Path) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
    """A small model and its tokenizer, verl's configuration, and the rows of the data set, each task ``SIZE`` times."""
    scratch = ScratchConfig(
        hidden=64, layers=2, heads=2, kv_heads=1, intermediate=96, vocabulary=280, init=0.2,
        pattern=" ?[^a-z ][a-z][0-9]|[a-z]+| ?.",
    )  # fmt: skip
    tokenizer = build_tokenizer(["up down left right"] * 8, scratch)
    tokenizer.save_pretrained(folder / "model")
    build_model(scratch, tokenizer, seed=3).save_pretrained(folder / "model")
    model, _ = open_pretrained(str(folder / "model"), device="cpu")
    options = sokoban_options(folder) | {"max_steps": 6}
    loop = {
        "name": "creditflow", "_target_": "creditflow.train.adapters.verl.loop.CreditAgentLoop",
        "env": {"name": "sokoban", "options": options}, "prompting": {"prompt": "places-v1", "dialect": "bare"},
        "max_new_tokens": 6,
    }  # fmt: skip
    (folder / "loop.json").write_text(json.dumps([loop]), encoding="ascii")
    config = config_for(folder / "model", folder / "loop.json")
    tasks = training_tasks(EnvConfig(name="sokoban", options=options), TaskConfig(), seed=0)
    rows = [row for row in rows_of("sokoban", tasks) for _ in range(SIZE)]
    return model, tokenizer, config, rows


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rows as verl's worker takes them."""
    columns = {name: np.array([row[name] for row in rows], object) for name in ("agent_name", "extra_info")}
    columns["raw_prompt"] = np.empty(len(rows), object)
    columns["raw_prompt"][:] = [row["prompt"] for row in rows]
    columns["uid"] = np.array([f"uid{i // SIZE}" for i in range(len(rows))], object)
    columns["session_id"] = np.array([i % SIZE for i in range(len(rows))], object)
    return columns


def dry_pass(folder: Path) -> dict[str, Any]:
    """Episodes -> verl's batch -> credit -> verl's loss -> gradient, compared with this package's loss and gradient."""
    model, tokenizer, config, rows = _set_up(folder)
    columns = _columns(rows)
    completion = [*tokenizer.encode("up", add_special_tokens=False), tokenizer.eos_token_id]
    worker = AgentLoopWorker(config, scripted(completion))
    asyncio.run(worker.generate_sequences(DataProto(non_tensor_batch=columns)))  # fills caches
    began = time.perf_counter()
    idle = asyncio.run(worker.generate_sequences(DataProto(non_tensor_batch=columns)))
    spent = (time.perf_counter() - began) / (0.5 * idle.non_tensor_batch["__num_turns__"].sum())
    worker = AgentLoopWorker(config, sampled_by(model))
    data = asyncio.run(worker.generate_sequences(DataProto(non_tensor_batch=columns)))
    # an untrained model never succeeds: an artificial reward makes the outcomes differ
    for i, text in enumerate(data.non_tensor_batch[FIELD]):
        data.non_tensor_batch[FIELD][i] = _rewarded(text)
    scored = assign_advantages(data, credit.make("gigpo"), size=SIZE)
    gradients = _gradients(model, config, data, scored)
    return {
        "episodes": len(data),
        "turns": sum(len(g.turns) for g in scored.groups),
        "tokens_in_loss": int(data.batch["response_mask"].bool().sum()),
        "loop_milliseconds_per_turn_with_an_instant_server": round(1000 * spent, 2),
        **gradients,
    }


def _gradients(model: Any, config: Any, data: DataProto, scored: Any) -> dict[str, float]:
    """Loss and gradient by verl's functions and by this package's.

    Raises:
        SystemExit: they differ, or vanish.
    """
    width = data.batch["responses"].shape[1]
    logits = model(
        data.batch["input_ids"], attention_mask=data.batch["attention_mask"], position_ids=data.batch["position_ids"]
    ).logits[:, -width - 1 : -1]
    logprob = torch.log_softmax(logits.float(), -1).gather(-1, data.batch["responses"][..., None])[..., 0]
    mask = data.batch["response_mask"].bool()
    drift = (logprob.detach() - data.batch["rollout_log_probs"])[mask].abs().max()
    old = data.batch["rollout_log_probs"]
    loss, _ = get_policy_loss_fn("vanilla")(
        old_log_prob=old, log_prob=logprob, advantages=data.batch["advantages"], response_mask=mask,
        loss_agg_mode="token-mean", config=omega_conf_to_dataclass(config.actor_rollout_ref.actor),
    )  # fmt: skip
    loss.backward(retain_graph=True)
    theirs = torch.cat([p.grad.flatten().clone() for p in model.parameters()])
    model.zero_grad()
    parts = token_losses(
        logprob[mask], torch.zeros(1), old[mask], torch.tensor(scored.advantages[mask.numpy()], dtype=torch.float32),
        LossConfig(importance_cap=0.0),
    )  # fmt: skip
    parts["loss"].mean().backward()
    ours = torch.cat([p.grad.flatten() for p in model.parameters()])
    if not theirs.norm() > 0.0 or (theirs - ours).norm() > 1e-4 * theirs.norm():
        raise SystemExit(f"gradients differ or vanish: {theirs.norm()}, {ours.norm()}, {(theirs - ours).norm()}")
    return {
        "largest_difference_of_sampled_and_recomputed_logprobs": float(drift),
        "verl_loss": float(loss.detach()),
        "our_loss": float(parts["loss"].mean().detach()),
        "gradient_norm": float(theirs.norm()),
        "relative_difference_of_gradients": float((theirs - ours).norm() / theirs.norm()),
    }


def _rewarded(text: str) -> str:
    """The record with a reward of 1 for every turn whose action has an odd number of characters."""
    record = EpisodeRecord.decode(text)
    turns = tuple(replace(turn, reward=float(len(turn.action) % 2)) for turn in record.trajectory.turns)
    return EpisodeRecord(replace(record.trajectory, turns=turns), record.turn_offsets, record.task).encode()


def main() -> None:
    """Run all parts and write the results."""
    torch.set_num_threads(1)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        evidence = {
            "job": "verl",
            "command": "python tests/evidence/engines/verl_adapter.py",
            "commit": commit,
            "machine": f"{platform.system()} {platform.machine()}, one CPU thread, no GPU",
            "versions": {
                "python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES},
            },
            "tests": {} if "--no-tests" in sys.argv else tests(),
            "dry_pass": dry_pass(Path(folder)),
            "sizes": sizes(),
        }  # fmt: skip
    with atomic_writer(TARGET) as stream:
        stream.write(json.dumps(evidence, indent=1) + "\n")
    print(json.dumps(evidence, indent=1))


if __name__ == "__main__":
    main()
