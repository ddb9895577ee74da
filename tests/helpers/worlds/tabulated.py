"""Tasks as tables through snapshots, slow and independent of the benchmark's own, and the noisy expert on a table."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.bench.exact.mdp import MAX_TABLE_STATES, FiniteMDP, explore

__all__ = ["noisy_expert", "tabulate"]

Floats = NDArray[np.float64]


def tabulate(env: gym.Env[Any, Any], *, cap: int = MAX_TABLE_STATES) -> FiniteMDP:
    """Tabulate the current task of any deterministic ``AgentEnv`` from its current state, through snapshots.

    General but slow: one snapshot is restored per state and action. The turns left are counted from the current step.

    Raises:
        ConfigError: the set of admissible actions differs between states.
        OracleLimitError: more than ``cap`` states.
    """
    base = env.unwrapped
    if not isinstance(base, AgentEnv):
        raise ConfigError(f"tabulate takes creditflow environments, got {type(base).__name__}")
    snapshot = base.get_state()
    _, info = base.set_state(snapshot)
    actions = info["admissible_actions"]
    elapsed, horizon = info["elapsed_steps"], base.max_steps - info["elapsed_steps"]
    # one snapshot per key: the one with the fewest steps, so that it can still act
    snapshots, infos = {info["state_key"]: snapshot}, {info["state_key"]: info}

    def results(key: str, action: int) -> tuple[str, float | None, bool]:
        base.set_state(snapshots[key])
        _, _, terminated, _, after = base.step(base.action_from_text(actions[action]))
        name = after["state_key"] + ("\x00end" if terminated else "")
        if name not in infos:
            infos[name], snapshots[name] = after, base.get_state()
            if not (terminated or base.elapsed_steps >= base.max_steps) and after["admissible_actions"] != actions:
                raise ConfigError(
                    f"tabulate needs the same actions in every state: {actions} at the start, "
                    f"{after['admissible_actions']} in {name!r}"
                )
        return name, after["score"] if terminated else None, after["success"]

    mdp = explore(
        info["state_key"],
        actions,
        results,
        lambda key: (infos[key]["state_key"], infos[key]["text_key"]),
        name=base.task.task_id,
        horizon=horizon,
        cap=cap,
        limit_score=lambda key: infos[key]["score"],
    )
    base.set_state(snapshot)
    assert base.elapsed_steps == elapsed
    return mdp


def noisy_expert(mdp: FiniteMDP, noise: float) -> Floats:
    """``NoisyExpert(noise)`` as a table: float64 (S, A).

    With probability ``noise``, and always in dead states, a uniformly random action; otherwise one of the optimal actions
    with equal probability.

    Raises:
        ConfigError: ``noise`` lies outside [0, 1].
    """
    if not 0.0 <= noise <= 1.0:
        raise ConfigError(f"noise must lie in [0, 1], got {short_repr(noise)}")
    uniform = np.full((mdp.size, len(mdp.actions)), 1.0 / len(mdp.actions))
    count = mdp.optimal.sum(axis=1, keepdims=True)
    best = np.where(count > 0, mdp.optimal / np.maximum(count, 1), uniform)
    return noise * uniform + (1.0 - noise) * best
