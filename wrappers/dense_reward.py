"""``DenseReward``: potential-based reward shaping from a credit scheme, and when it preserves optimal policies.

β F_t is added to the environment's reward, with F_t = γ Φ(s_{t+1}) − Φ(s_t). With ``terminal="zero"`` the potential of
terminal states is zero, so that along every path Σ_t γ^t F_t = −Φ(s_0): the ranking of policies does not change, and
optimal policies stay optimal. Shaping can change how fast a critic, a TD method or a step-grouped scheme learns. It has no
effect on schemes that see only the return (GRPO, RLOO): with γ = 1 all returns change by −Φ(s_0).

Φ is a function of the state ("rewardflow", "graphgpo", "grouptd"; learned from recorded groups), or of the history
("gdcr": the sum of the scheme's rewards in this episode; known from the task). With γ = 1 and ``terminal="paper"`` the
shaping of the latter equals GDCR's r_t, which does change the optimal policy: it raises the return of episodes that find
more entities. With the default the potential of terminal histories is zero.

Published methods differ: RewardFlow, GDCR and PiCA keep the potential of terminal states (``terminal="paper"``), which
changes the optimal policy; GraphGPO and RewardFlow use one-step differences as *advantages*, which is not shaping.
Penalties for invalid actions break the invariance as well.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr, unknown_name_error
from creditflow.wrappers.base_env import base_env
from creditflow.wrappers.graphs.history_potential import HISTORY, HistoryPotential
from creditflow.wrappers.graphs.potentials import Potentials, PotentialStore

__all__ = ["DenseReward", "require_unshaped"]


class DenseReward(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Add potential-based shaping to the environment's reward.

    Args:
        env: an ``AgentEnv``, possibly wrapped.
        scheme: source of the potential: "rewardflow", "graphgpo" or "grouptd" (see ``PotentialStore``), or "gdcr" (see
            ``HistoryPotential``; without ``store``, ``unknown`` and ``key``).
        gamma: γ, the *trainer's* discount; any other breaks the invariance, so there is no default.
        store: store shared by all environments of a run, or one fixed version; default a new, empty store.
        beta: β, scale of the shaping.
        terminal: "zero": Φ of terminal states is zero (policy-invariant); "paper": it is not.
        truncation: how the trainer treats the turn limit: "end" (the return ends there: Φ is zero) or "bootstrap" (it
            bootstraps from its value of the last state: Φ is kept).
        unknown: Φ of a state that the store does not contain: "carry" keeps the last known one, so that reaching a new
            state gives no negative reward; or "zero".
        key: key that identifies a state: the environment's "state" key or the "text" key.
        **parameters: parameters of the scheme, if no store is given.

    Every episode uses one version of the potential, chosen at ``reset``. Adds to ``info``: ``raw_reward: float`` (the
    environment's), ``shaping: float`` (β F), ``potential: float`` and ``potential_version: int``. ``success`` and
    ``score`` do not change.

    Raises:
        ConfigError: an invalid option.
        CreditError: at ``reset``, a task that lacks what "gdcr" needs.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        scheme: str,
        *,
        gamma: float,
        store: PotentialStore | Potentials | None = None,
        beta: float = 1.0,
        terminal: Literal["zero", "paper"] = "zero",
        truncation: Literal["end", "bootstrap"] = "end",
        unknown: Literal["carry", "zero"] = "carry",
        key: Literal["state", "text"] = "state",
        **parameters: Any,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, scheme=scheme, gamma=gamma, beta=beta, terminal=terminal, truncation=truncation, unknown=unknown,
            key=key, **parameters,
        )  # fmt: skip
        gym.Wrapper.__init__(self, env)
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma must lie in (0, 1], got {short_repr(gamma)}")
        for name, value, known in (
            ("terminal", terminal, ["zero", "paper"]),
            ("truncation", truncation, ["end", "bootstrap"]),
            ("unknown", unknown, ["carry", "zero"]),
            ("key", key, ["state", "text"]),
        ):
            if value not in known:
                raise unknown_name_error(name, str(value), known)
        if store is not None and parameters:
            raise ConfigError(f"the store has its own scheme: {sorted(parameters)} would have no effect")
        self._base = base_env(env, "DenseReward")
        self._history = HistoryPotential(scheme, **parameters) if scheme in HISTORY else None
        if self._history is not None:
            if store is not None or (unknown, key) != ("carry", "state"):
                raise ConfigError(
                    f"{scheme} takes its potential from the task: store, unknown and key would have no effect"
                )
            store = Potentials()
        elif key == "text" and store is None:
            parameters["key"] = "text"
        self.store = PotentialStore(scheme, **parameters) if store is None else store
        self._pending = {"thought": "", "response": ""}
        self.gamma, self.beta = float(gamma), float(beta)
        self._terminal, self._truncation, self._unknown, self._key = terminal, truncation, unknown, f"{key}_key"
        self._version = Potentials()
        self._potential = 0.0
        self._elapsed = 0

    @property
    def potentials(self) -> Potentials:
        """The version of the current episode."""
        return self._version

    def record_response(self, *, thought: str = "", response: str = "") -> None:
        """Record thought and response for the next ``step``; called by ``Recorder.record_response``."""
        self._pending = {"thought": thought, "response": response}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with the version that was published last."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._version = self.store if isinstance(self.store, Potentials) else self.store.snapshot()
        self._potential = 0.0
        if self._history is not None:
            self._history.begin(self._base.task.content, str(info["task_id"]))
        self._pending = {"thought": "", "response": ""}
        self._potential = self._of(info)
        self._elapsed = self._base.elapsed_steps
        return obs, self._shaped_info(info, float(info.get("raw_reward", 0.0)), 0.0)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and add the shaping to its reward.

        Raises:
            EpisodeError: the environment was restored outside this wrapper.
        """
        if self._base.elapsed_steps != self._elapsed:
            raise EpisodeError(
                "the environment was restored outside this wrapper: restore snapshots of DenseReward.get_state with "
                "DenseReward.set_state"
            )
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._elapsed = self._base.elapsed_steps
        before = self._potential
        if self._history is not None:
            self._history.step(action, obs, info, **self._pending, last=terminated or truncated)
        self._pending = {"thought": "", "response": ""}
        self._potential = self._after(info, terminated, truncated)
        shaping = self.beta * (self.gamma * self._potential - before)
        raw = float(info.get("raw_reward", reward))
        return obs, float(reward) + shaping, terminated, truncated, self._shaped_info(info, raw, shaping)

    def get_state(self) -> str:
        """Return the environment's snapshot with the potential that the next step subtracts."""
        data = {"format": "dense/1", "env": self._base.get_state(), "potential": self._potential}
        if self._history is not None:
            data["history"] = self._history.get_state()
        return json.dumps(data)

    def set_state(self, snapshot: str) -> tuple[Any, dict[str, Any]]:
        """Restore a snapshot of ``get_state``; the next step subtracts the potential stored in it.

        The episode continues with the version that was published last, even if the snapshot was taken with another one:
        the sum along the path does not depend on it.

        Raises:
            DataError: the snapshot is not one of this wrapper.
        """
        try:
            data = json.loads(snapshot)
            inner, potential, history = data["env"], float(data["potential"]), data.get("history")
            if data["format"] != "dense/1":
                raise DataError(f"a DenseReward snapshot has format 'dense/1', got {short_repr(data['format'], 40)}")
            if not math.isfinite(potential):
                raise DataError(f"the potential of a DenseReward snapshot must be finite, got {potential}")
        except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"not a DenseReward snapshot: {short_repr(snapshot)}") from error
        obs, info = self._base.set_state(inner)
        if self._history is not None:
            self._history.begin(self._base.task.content, str(info["task_id"]))
            self._history.set_state(history)
        self._version = self.store if isinstance(self.store, Potentials) else self.store.snapshot()
        self._potential, self._elapsed = potential, self._base.elapsed_steps
        return obs, self._shaped_info(info, 0.0, 0.0)

    def _after(self, info: dict[str, Any], terminated: bool, truncated: bool) -> float:
        if terminated:
            if self._terminal == "zero":
                return 0.0
            if self._history is not None or not info["success"]:
                return self._of(info)
            return self._version.goal if self._version.values.get(info["task_id"]) else 0.0
        if truncated and self._terminal == "zero" and self._truncation == "end":
            return 0.0
        return self._of(info)

    def _of(self, info: dict[str, Any]) -> float:
        """Return Φ of the state that ``info`` describes, or of the history up to it."""
        if self._history is not None:
            return self._history.value
        value = self._version.of(info["task_id"], info[self._key])
        if value is not None:
            return value
        return self._potential if self._unknown == "carry" else 0.0

    def _shaped_info(self, info: dict[str, Any], raw: float, shaping: float) -> dict[str, Any]:
        return {
            **info,
            "raw_reward": raw,
            "shaping": shaping,
            "potential": self._potential,
            "potential_version": self._version.version,
        }


def require_unshaped(env: gym.Env[Any, Any], *, force: bool = False) -> None:
    """Reject evaluation with shaped rewards.

    Args:
        env: any environment.
        force: allow shaped rewards.

    Raises:
        ConfigError: the environment contains a ``DenseReward``.
    """
    layer: gym.Env[Any, Any] = env
    while not force:
        if isinstance(layer, DenseReward):
            raise ConfigError(
                "evaluation with DenseReward would report shaped returns: remove the wrapper, or pass force=True and "
                "report info['raw_reward']"
            )
        if not isinstance(layer, gym.Wrapper):
            return
        layer = layer.env
