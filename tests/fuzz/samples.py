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

# every environment, with limits that keep one case cheap
ENVS: dict[str, dict[str, Any]] = {
    "sokoban": {"panel": "small-v1:train", "oracle_memory_mb": 32},
    "alfworld": {"oracle_nodes": 2_000},
    "webshop": {},
    "wikisearch": {},
}


def env_of(name: str, **options: Any) -> AgentEnv[Any, Any, Any]:
    """A bare environment, a new one every time."""
    env = creditflow.make(name, **ENVS[name], **options).unwrapped
    assert isinstance(env, AgentEnv)
    return env


@lru_cache(maxsize=8)
def groups(name: str, size: int = 2, tasks: int = 2) -> tuple[Group, ...]:
    """Groups of short rollouts."""
    env = GroupEnv(name, size=size, **ENVS[name])
    base = env.members[0].base
    rng = np.random.Generator(np.random.PCG64(3))
    return tuple(play_group(env, NoisyExpert(0.5), base.tasks.sample(rng), seed=1) for _ in range(tasks))


@lru_cache(maxsize=8)
def log_text(name: str) -> str:
    """The log of these groups."""
    stream = io.StringIO()
    write_jsonl(stream, groups(name))
    return stream.getvalue()


def bomb(head: bytes, filler: bytes, times: int, *, form: int = 31) -> bytes:
    """A compressed stream that begins with ``head`` and goes on with ``filler`` a thousand times ``times``.

    Made of flushed blocks that are repeated as they are, so it is made in a moment; it is cut short, which a reader that
    stops at a limit never sees.

    Args:
        form: window bits: 31 for gzip, 15 for zlib.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, form)
    begun = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(filler * 1000) + packer.flush(zlib.Z_FULL_FLUSH)
    return begun + block * times
