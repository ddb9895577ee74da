"""Tasks and snapshots of all environments: malformed ones are rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import OracleLimitError
from fuzz.mutate_bytes import pick
from fuzz.mutate_data import freeze, mutate_json, mutate_recipe, thaw
from fuzz.samples import ENVS, env_of
from fuzz.target import MismatchError, Target

Env = AgentEnv[Any, Any, Any]


@lru_cache(maxsize=8)
def _kept(name: str) -> Env:
    """Return one environment for many cases, as a server would keep it."""
    return env_of(name)


# -- tasks -----------------------------------------------------------------------------------------------------------
def _options(name: str) -> Callable[[Path], Sequence[bytes]]:
    def make(_: Path) -> Sequence[bytes]:
        env, found = env_of(name), []
        for seed in range(3):
            env.reset(seed=seed)
            task_id, content = env.task.task_id, dict(env.task.content)
            found += [{"task": content}, {"task_id": task_id, "task": content}]
            found += [{"task_id": task_id}] if env.tasks.task_ids() else []  # an endless source cannot look up ids
        if name == "alfworld":
            found.append({"task": {"seed": 5, "split": "train", "task_type": ""}})
        if name == "sokoban":
            found.append({"task": "#####\n#@$.#\n#####"})
        return [freeze(options) for options in found]

    return make


def _reset(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, _: Path) -> None:
        env = _kept(name)
        _, info = env.reset(seed=0, options=thaw(data))
        if info["admissible_actions"]:
            env.step(env.action_from_text(info["admissible_actions"][0]))
        check_oracle(env, env.get_state())

    return read


def check_oracle(env: Env, state: str) -> None:
    """Check that an oracle's values and distance agree.

    Raises:
        MismatchError: the value is 1 at an infinite distance, outside [0, 1], or larger with fewer steps left.
    """
    try:
        value, distance = env.oracle.value(state), env.oracle.distance(state)
        none_left = env.oracle.value(state, steps_left=0)
    except OracleLimitError:
        return
    if not 0.0 <= none_left <= value <= 1.0:
        raise MismatchError(f"the oracle's value is {value}, and {none_left} with no step left")
    if value >= 1.0 and math.isinf(distance):
        raise MismatchError("the oracle's value is 1 at an infinite distance")


OPTION_TRAPS: tuple[Any, ...] = (
    {"task_id": 5}, {"task_id": ["x"]}, {"task_id": {}}, {"task_id": "@bytes@"}, {"task_id": "@set@"}, {"task_id": "\ud800"},
    {"task_id": True}, {"task": []}, {"task": "x"}, {"task": 5}, {"task": {"seed": "5"}}, {"task": {"seed": -1}},
    {"task": {"seed": "@digits:5000@"}}, {"task": {"seed": 1, "split": 5}}, {"task": {"seed": 1, "split": []}},
    {"task": {"seed": 1, "task_type": {}}}, {"task": {"seed": 1, "room": ["x"]}}, {"task": {"path": "/etc/passwd"}},
    {"task": {"xsb": "@deep:5000@"}}, {"task": "@deep:5000@"}, {"task": "/etc/passwd"}, {"task": "\0"}, [1], "task_id", 5,
    {"task": {"documents": []}}, {"1": 2},
)  # fmt: skip


# -- snapshots -------------------------------------------------------------------------------------------------------
def take_random_steps(env: Env, rng: np.random.Generator, steps: int) -> list[str]:
    """Take random admissible actions until the end of the episode; return their texts."""
    done: list[str] = []
    for _ in range(steps):
        listed = env._admissible() if not env._over else ()
        if not listed:
            break
        text = pick(rng, listed)
        done.append(text)
        env.step(env.action_from_text(text))
    return done


def _states(name: str) -> Callable[[Path], Sequence[bytes]]:
    def make(_: Path) -> Sequence[bytes]:
        env, found = env_of(name), []
        for seed in range(4):
            env.reset(seed=seed)
            take_random_steps(env, np.random.Generator(np.random.PCG64(seed)), 3 * seed)
            found.append(env.get_state().encode("utf-8", "surrogatepass"))
        return found

    return make


def _restore(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, _: Path) -> None:
        env = _kept(name)
        state = data.decode("utf-8", "surrogatepass" if data.isascii() else "replace")
        _, info = env.set_state(state)
        again = env.get_state()
        if env.set_state(again)[1] != info:
            raise MismatchError("a restored snapshot that is written again restores another state")
        check_oracle(env, again)
        if info["admissible_actions"]:
            env.step(env.action_from_text(info["admissible_actions"][-1]))

    return read


TARGETS = (
    *(
        Target(
            name=f"tasks/{name}", read=_reset(name), seeds=_options(name), mutate=mutate_recipe, cases=100,
            traps=lambda: [freeze(one) for one in OPTION_TRAPS],
        )
        for name in ENVS
    ),
    *(
        Target(
            name=f"states/{name}", read=_restore(name), seeds=_states(name), mutate=mutate_json, cases=100,
            traps=lambda: [b"[" * 100_000, b"null", b"{}", b"9" * 5000, b'"x"'],
        )
        for name in ENVS
    ),
)  # fmt: skip
