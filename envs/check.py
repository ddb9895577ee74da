"""``check_agent_env``: assertions for the contract of an agent environment.

It complements ``gymnasium.utils.env_checker.check_env`` with the info schema, invalid actions, snapshots, task ids, the
step limit and the oracle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import CreditflowError, EpisodeError, short_repr
from creditflow.envs.info import INFO_TYPES

__all__ = ["EnvContractError", "check_agent_env"]

INVALID_ACTIONS = (
    "",
    " \n\t",
    "\x00\x1b[2J",
    "ÿ√𝔘\U0001f600",
    "\ud800",
    "'; DROP TABLE--",
    "x" * 100_000,
    None,
    3.5,
    b"up",
)


class EnvContractError(CreditflowError, AssertionError):
    """An environment violates the contract; the message states the rule."""


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise EnvContractError(rule)


def _check_info(info: Mapping[str, Any], types: dict[str, type], where: str) -> None:
    for key, kind in types.items():
        _require(key in info, f"{where}: info lacks the key {key!r} ({kind.__name__})")
        value = info[key]
        _require(type(value) is kind, f"{where}: info[{key!r}] must be {kind.__name__}, got {value!r}")
    extra = set(info) - set(types)
    _require(not extra, f"{where}: info has keys that reset did not have: {sorted(extra)}")
    key = info["state_key"]
    _require(
        0 < len(key) <= 64 and key.isprintable(), f"{where}: state_key must be printable and ≤ 64 long, got {key!r}"
    )
    _require(all(type(a) is str for a in info["admissible_actions"]), f"{where}: admissible_actions must be strings")
    _require(
        info["action_valid"] == (info["action_parsed"] and info["action_admissible"]),
        f"{where}: action_valid must be action_parsed and action_admissible",
    )
    _require(info["action_valid"] == (info["invalid_reason"] == ""), f"{where}: invalid_reason must be '' iff valid")
    _require(0.0 <= info["score"] <= 1.0, f"{where}: score must lie in [0, 1], got {info['score']!r}")


def check_agent_env(env: gym.Env[Any, Any], *, seed: int = 0, steps: int = 60) -> None:
    """Check that an environment follows the contract of ``creditflow`` environments.

    Args:
        env: an environment, wrapped or not, whose ``unwrapped`` is an ``AgentEnv``.
        seed: seed of the episodes and of the random actions.
        steps: number of random actions to try.

    Raises:
        EnvContractError: the first violated rule.
    """
    base = env.unwrapped
    if not isinstance(base, AgentEnv):
        raise EnvContractError(f"{type(base).__name__} must derive from creditflow.envs.AgentEnv")
    rng = np.random.default_rng(seed)
    obs, info = env.reset(seed=seed)
    types: dict[str, type] = {**INFO_TYPES, **{k: type(v) for k, v in info.items() if k not in INFO_TYPES}}
    for key, kind in types.items():
        _require(kind in (str, bool, int, float, tuple), f"info[{key!r}] must be a flat plain value, got {kind}")
    _check_info(info, types, "reset")
    _require(env.observation_space.contains(obs), f"reset: observation {obs!r} is not in {env.observation_space}")
    first = (info["task_id"], info["state_key"])

    # the same seed, and the same id, give the same task
    _, again = env.reset(seed=seed)
    _require((again["task_id"], again["state_key"]) == first, "reset(seed=…) must be a function of the seed")
    _, named = env.reset(options={"task_id": first[0]})
    _require((named["task_id"], named["state_key"]) == first, "reset(options={'task_id': …}) must give that task")

    _check_naming(env, base, first)
    _check_fresh_instance(base, seed)
    _check_random_steps(env, base, types, rng, steps)
    _check_invalid_actions(env, base, types)
    _check_limit(env, base.max_steps)


def _check_naming(env: gym.Env[Any, Any], base: AgentEnv[Any, Any, Any], first: tuple[str, str]) -> None:
    """Check that a payload names its task, alone and with the id, and that other payloads are rejected."""
    content = json.loads(json.dumps(dict(base.task.content)))
    for options in ({"task": content}, {"task_id": first[0], "task": content}):
        _, named = env.reset(options=options)
        same = (named["task_id"], named["state_key"]) == first
        _require(same, f"reset with the options {sorted(options)} must give that task")
    for options in ({"task_id": f"{first[0]}0", "task": content}, {"task_id": 7}, {"task": 7}, {"task": [[]]}):
        try:
            env.reset(options=options)
        except CreditflowError:
            continue
        except Exception as error:
            raise EnvContractError(
                f"reset(options={short_repr(options, 80)}) must raise one of creditflow's errors, not {error!r}"
            ) from error
        raise EnvContractError(f"reset(options={short_repr(options, 80)}) must be rejected")


def _check_fresh_instance(base: AgentEnv[Any, Any, Any], seed: int) -> None:
    """Check that a snapshot continues identically in an environment that was never reset."""
    if base.spec is None:
        return
    fresh = gym.make(base.spec).unwrapped
    if not isinstance(fresh, AgentEnv):
        raise EnvContractError(f"the spec of {type(base).__name__} must make an AgentEnv, not {type(fresh).__name__}")
    base.reset(seed=seed)
    for steps in range(3):
        snapshot = base.get_state()
        _, restored = fresh.set_state(snapshot)
        _require(fresh.get_state() == snapshot, "a fresh environment must restore any snapshot, before its first reset")
        if not restored["admissible_actions"]:
            return
        action = base.action_from_text(restored["admissible_actions"][-1 - steps % len(restored["admissible_actions"])])
        first, second = base.step(action), fresh.step(action)
        same = data_equivalence(first[:4], second[:4]) and first[4] == second[4]
        _require(same, f"a snapshot must continue identically in a fresh environment; action {action!r} differed")
        if first[2] or first[3]:
            return


def _check_random_steps(
    env: gym.Env[Any, Any], base: AgentEnv[Any, Any, Any], types: dict[str, type], rng: np.random.Generator, steps: int
) -> None:
    """Check info, oracle and snapshots along random admissible actions."""
    _, info = env.reset(seed=int(rng.integers(2**31)))
    for _ in range(steps):
        snapshot = base.get_state()
        _require(isinstance(snapshot, str), f"get_state must return JSON text, got {type(snapshot).__name__}")
        json.loads(snapshot)
        actions = info["admissible_actions"]
        _require(len(actions) > 0, "admissible_actions is empty although the episode is not over")
        _check_oracle(base, snapshot, actions)
        action = base.action_from_text(actions[int(rng.integers(len(actions)))])
        outcome = env.step(action)
        obs, reward, terminated, truncated, info = outcome
        _check_info(info, types, "step")
        _require(info["action_valid"], f"{action!r} is listed as admissible but was rejected: {info['invalid_reason']}")
        _require(type(reward) is float and math.isfinite(reward), f"reward must be a finite float, got {reward!r}")
        _require(type(terminated) is bool and type(truncated) is bool, "terminated and truncated must be bool")
        _require(not (terminated and truncated), "terminated and truncated must not both be True")
        _require(env.observation_space.contains(obs), f"observation {obs!r} is not in {env.observation_space}")
        # a restored snapshot replays the same step
        base.set_state(snapshot)
        _require(base.get_state() == snapshot, "set_state then get_state must give the same snapshot")
        replay = env.step(action)
        same = data_equivalence(outcome[:4], replay[:4]) and replay[4] == info
        _require(same, f"a restored snapshot must replay the same step; action {action!r} differed")
        if terminated or truncated:
            _require(info["admissible_actions"] == (), "admissible_actions must be () once the episode is over")
            _require(terminated or not info["success"], "success without termination")
            try:
                env.step(action)
            except EpisodeError:
                pass
            else:
                raise EnvContractError("step after the end of the episode must raise EpisodeError")
            _, info = env.reset(seed=int(rng.integers(2**31)))


def _check_oracle(base: AgentEnv[Any, Any, Any], snapshot: str, actions: tuple[str, ...]) -> None:
    oracle = base.oracle
    value, distance = oracle.value(snapshot), oracle.distance(snapshot)
    best = oracle.optimal_actions(snapshot)
    _require(0.0 <= value <= 1.0, f"oracle.value must lie in [0, 1], got {value!r}")
    _require(distance >= 0, f"oracle.distance must be ≥ 0, got {distance!r}")
    _require(best == tuple(sorted(best)), f"oracle.optimal_actions must be sorted, got {best!r}")
    _require(math.isinf(distance) == (not best) or distance == 0, "oracle: actions iff a finite, positive distance")
    _require(
        value < 1.0 or math.isfinite(distance),
        f"oracle: value is {value!r} where success is out of reach (distance {distance!r})",
    )
    if math.isfinite(distance) and distance > 0:  # in stochastic environments the value may be below 1 anyway
        short = oracle.value(snapshot, steps_left=int(distance) - 1)
        _require(short < 1.0, f"oracle: value within one step less than the distance ({distance:g}) is {short!r}")
    for action in sorted(set(best) - set(actions)):  # with free-text actions, not all admissible ones are listed
        admissible = base.step(base.action_from_text(action))[4]["action_valid"]
        base.set_state(snapshot)
        _require(admissible, f"oracle.optimal_actions {best!r} must be admissible, listed ({actions!r}) or not")


def _check_invalid_actions(env: gym.Env[Any, Any], base: AgentEnv[Any, Any, Any], types: dict[str, type]) -> None:
    """Check that invalid actions change nothing but the step count and have a reason."""
    for action in INVALID_ACTIONS:
        obs, before = env.reset(seed=1)
        try:
            after_obs, _, terminated, _, info = base.step(action)
        except Exception as error:
            raise EnvContractError(
                f"the action {short_repr(action, 40)} must be rejected, not raise {error!r}"
            ) from error
        _check_info(info, types, f"invalid action {short_repr(action, 40)}")
        _require(not info["action_valid"], f"the action {short_repr(action, 40)} should be rejected")
        _require(
            info["state_key"] == before["state_key"]
            and (base.observation_is_reply or data_equivalence(obs, after_obs))
            and not terminated,
            "an invalid action must change nothing",
        )
        _require(info["elapsed_steps"] == 1, "an invalid action counts as a step")
        _require(len(info["invalid_reason"]) <= 400, "invalid_reason must not echo a huge action")


def _check_limit(env: gym.Env[Any, Any], max_steps: int) -> None:
    """Check the step limit with invalid actions."""
    env.reset(seed=2)
    for count in range(1, max_steps + 1):
        _, _, terminated, truncated, _ = env.unwrapped.step("\x00")
        _require(not terminated, "invalid actions must not end the task")
        _require(truncated == (count == max_steps), f"truncation must happen at max_steps={max_steps}")
