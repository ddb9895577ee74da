"""Tasks and snapshots of all environments: malformed ones are rejected, valid ones continue identically anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import creditflow
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import OracleLimitError
from fuzz.mutate_bytes import below, pick
from fuzz.mutate_data import freeze, mutate_json, mutate_recipe, thaw
from fuzz.samples import ENVS, env_of
from fuzz.target import MismatchError, Target

Env = AgentEnv[Any, Any, Any]
JUNK = ("", "fly", "click[nothing]", "search[", "go to nowhere 1", "answer:")


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


# -- round trips -----------------------------------------------------------------------------------------------------
def _journeys(name: str) -> Callable[[np.random.Generator, Sequence[bytes]], bytes]:
    def make(rng: np.random.Generator, _: Sequence[bytes]) -> bytes:
        return freeze({"seed": below(rng, 10**6), "before": below(rng, 8), "after": 4, "tasks": 1})

    return make


def _same(what: str, one: Any, other: Any) -> None:
    if one != other:
        raise MismatchError(f"{what}: {one!r:.120} and {other!r:.120}")


def _follow(env: Any, actions: Sequence[str]) -> list[Any]:
    """Return the results of the steps of an action sequence, up to the end of the episode."""
    found = []
    for text in actions:
        if env.unwrapped._over:
            break
        found.append(env.step(env.unwrapped.action_from_text(text)))
    return found


def _journey(name: str, **options: Any) -> Callable[[bytes, Path], None]:
    """Return a reader that restores snapshots in the writer and in another instance, and compares how they continue."""

    def read(data: bytes, _: Path) -> None:
        plan = json.loads(data)
        rng = np.random.Generator(np.random.PCG64(plan["seed"]))
        writer = creditflow.make(name, **(options or ENVS[name])).unwrapped
        other = creditflow.make(name, **(options or ENVS[name])).unwrapped
        if not isinstance(writer, AgentEnv) or not isinstance(other, AgentEnv):
            raise TypeError(name)
        for number in range(plan["tasks"]):
            writer.reset(seed=below(rng, 900))
            take_random_steps(writer, rng, plan["before"])
            state = json.loads(json.dumps(writer.get_state()))
            seen = writer.set_state(state)
            _same("get_state after set_state", writer.get_state(), state)
            junk = [] if name == "sokoban" else [pick(rng, JUNK)]  # every action of which is admissible
            ahead = [*writer._admissible()[:1], *junk, *writer._admissible()[-2:]][: plan["after"]]
            wanted = _follow(writer, ahead)
            _same("restored elsewhere", other.set_state(state), seen)
            _same("continued elsewhere", _follow(other, ahead), wanted)
            if number % 20 == 0:
                check_oracle(writer, state)

    return read


def _fresh(name: str) -> Callable[[bytes, Path], None]:
    """Return a reader that restores a snapshot in an environment with all wrappers of ``make``, before any ``reset``."""

    def read(data: bytes, _: Path) -> None:
        writer = env_of(name)
        writer.reset(seed=json.loads(data)["seed"])
        state = writer.get_state()
        seen, ahead = writer.set_state(state), writer._admissible()[:2]
        wanted = _follow(writer, ahead)
        fresh = creditflow.make(name, **ENVS[name])
        _same("restored in a fresh environment", fresh.unwrapped.set_state(state), seen)  # type: ignore[attr-defined]  # an AgentEnv
        _same("continued in a fresh environment", _follow(fresh, ahead), wanted)

    return read


def _elsewhere(name: str, **options: Any) -> Callable[[bytes, Path], None]:
    """Return a reader that resets by id and payload in an environment that never sampled the task."""

    def read(data: bytes, _: Path) -> None:
        here, there = creditflow.make(name, **options).unwrapped, creditflow.make(name, **options).unwrapped
        if not isinstance(here, AgentEnv):
            raise TypeError(name)
        wanted = here.reset(seed=json.loads(data)["seed"])
        named = {"task_id": here.task.task_id, "task": json.loads(json.dumps(dict(here.task.content)))}
        _same("the task elsewhere", there.reset(options=named), wanted)

    return read


def _long(tasks: int) -> Callable[[], Sequence[bytes]]:
    return lambda: [freeze({"seed": 11, "before": 1, "after": 2, "tasks": tasks})]


def _seeds(_: Path) -> Sequence[bytes]:
    return [freeze({"seed": 3, "before": 2, "after": 4, "tasks": 1})]


# arguments, and the number of tasks of one long case: more than any cache keeps
JOURNEYS: dict[str, tuple[dict[str, Any], int]] = {
    "sokoban": ({"panel": "standard-v1"}, 600),
    "alfworld": ({"panel": "standard-v1", "oracle_nodes": 2_000}, 600),
    "webshop": ({"panel": "standard-v1"}, 300),
    "wikisearch": ({"panel": "standard-v1"}, 40),
}
GENERATED: dict[str, dict[str, Any]] = {
    "sokoban": {"generator": {"height": 7, "width": 7, "boxes": 1}},
    "alfworld": {},
    "webshop": {},
    "wikisearch": {"world": {"articles": 300, "questions": 40, "seed": 5}},
}

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
    *(
        Target(
            name=f"futures/{name}", read=_journey(name, **options), seeds=_seeds, mutate=_journeys(name), cases=4,
            seconds=60.0, may_reject=False,
            traps=_long(tasks),
        )
        for name, (options, tasks) in JOURNEYS.items()
    ),
    *(
        Target(name=f"fresh/{name}", read=_fresh(name), seeds=_seeds, mutate=_journeys(name), cases=3, may_reject=False)
        for name in ENVS
    ),
    *(
        Target(
            name=f"elsewhere/{name}", read=_elsewhere(name, **options), seeds=_seeds, mutate=_journeys(name), cases=6, may_reject=False
        )
        for name, options in GENERATED.items()
    ),
)  # fmt: skip
