"""Valid samples that the project itself writes, shared by several targets."""

from __future__ import annotations

import io
import zlib
from functools import lru_cache
from typing import Any

import numpy as np

import creditflow
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.core import AgentEnv
from creditflow.train.rollout import play_group
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl import write_jsonl

__all__ = ["ENVS", "bomb", "env_of", "groups", "log_text"]

# every environment, with limits that keep a case fast
ENVS: dict[str, dict[str, Any]] = {
    "sokoban": {"panel": "small-v1:train", "oracle_memory_mb": 32},
    "alfworld": {"oracle_nodes": 2_000},
    "webshop": {},
    "wikisearch": {},
}


def env_of(name: str, **options: Any) -> AgentEnv[Any, Any, Any]:
    """Return a new environment without wrappers."""
    env = creditflow.make(name, **ENVS[name], **options).unwrapped
    assert isinstance(env, AgentEnv)
    return env


@lru_cache(maxsize=8)
def groups(name: str, size: int = 2, tasks: int = 2) -> tuple[Group, ...]:
    """Return groups of rollouts by a noisy expert."""
    env = GroupEnv(name, size=size, **ENVS[name])
    base = env.members[0].base
    rng = np.random.Generator(np.random.PCG64(3))
    return tuple(play_group(env, NoisyExpert(0.5), base.tasks.sample(rng), seed=1) for _ in range(tasks))


@lru_cache(maxsize=8)
def log_text(name: str) -> str:
    """Return the JSON Lines of ``groups(name)``."""
    stream = io.StringIO()
    write_jsonl(stream, groups(name))
    return stream.getvalue()


def bomb(head: bytes, filler: bytes, times: int, *, form: int = 31) -> bytes:
    """Return a compressed stream of ``head`` and then ``filler``, repeated 1,000 · ``times`` times.

    It repeats one flushed block, so it takes little time to make. It has no end marker, which a reader that stops at a
    limit never reaches.

    Args:
        head: first bytes of the content.
        filler: bytes that are repeated.
        times: number of blocks of 1,000 repetitions.
        form: window bits: 31 for gzip, 15 for zlib.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, form)
    begun = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(filler * 1000) + packer.flush(zlib.Z_FULL_FLUSH)
    return begun + block * times
