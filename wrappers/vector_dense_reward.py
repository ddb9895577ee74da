"""``VectorDenseReward``: the shaping of ``DenseReward`` for a vector environment, all environments at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from creditflow.envs.errors import ConfigError, short_repr, unknown_name_error
from creditflow.wrappers.graphs.potentials import Potentials, PotentialStore
from creditflow.wrappers.vector_wrapper import AnyVectorWrapper

__all__ = ["VectorDenseReward"]


class VectorDenseReward(AnyVectorWrapper):
    """Add β (γ Φ(s') − Φ(s)) to the rewards of a vector environment whose infos have ``task_id`` and ``state_key``.

    In every autoreset mode the rewards are those of ``DenseReward`` around each single environment. The potential of
    terminal states is zero, so optimal policies stay optimal.

    Args:
        env: a vector environment; Sokoban's own, or Gymnasium's loops over an ``AgentEnv``.
        store: the source of Φ: a store that learns it from groups, or one fixed version.
        gamma: γ, the *trainer's* discount; any other breaks the invariance, so there is no default.
        beta: β, scale of the shaping.
        truncation: how the trainer treats the turn limit: "end" (the return ends there: Φ is zero) or "bootstrap" (it
            bootstraps from its value of the last state: Φ is kept).
        unknown: Φ of a state that the store does not contain: "carry" keeps the last known one, or "zero".

    Adds to the infos of a step ``raw_reward`` and ``shaping``, float64 (N,). Every episode uses the version of the potential
    that was published last when it began.

    Raises:
        ConfigError: an invalid option.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        store: PotentialStore | Potentials,
        *,
        gamma: float,
        beta: float = 1.0,
        truncation: Literal["end", "bootstrap"] = "end",
        unknown: Literal["carry", "zero"] = "carry",
    ) -> None:
        super().__init__(env)
        if not 0.0 < gamma <= 1.0:
            raise ConfigError(f"gamma must lie in (0, 1], got {short_repr(gamma)}")
        for name, value, known in (
            ("truncation", truncation, ["end", "bootstrap"]), ("unknown", unknown, ["carry", "zero"]),
        ):  # fmt: skip
            if value not in known:
                raise unknown_name_error(name, str(value), known)
        self.store, self.gamma, self.beta = store, float(gamma), float(beta)
        self._ends, self._carries = truncation == "end", unknown == "carry"
        self._versions = [Potentials()] * env.num_envs
        self._potentials = np.zeros(env.num_envs)
        self._ended = np.zeros(env.num_envs, dtype=np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes, with the version that was published last."""
        obs, infos = self.env.reset(seed=seed, options=options)
        begun = np.flatnonzero(infos["_task_id"])
        self._begin(begun, infos)
        self._ended = self._ended & ~infos["_task_id"]
        return obs, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one step in every environment, and add the shaping to the rewards."""
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        over = terminations | truncations
        mode = self.env.metadata["autoreset_mode"]
        begun = np.flatnonzero(self._ended) if mode == AutoresetMode.NEXT_STEP else np.empty(0, dtype=np.int64)
        if mode == AutoresetMode.SAME_STEP and over.any():
            after = self._of(np.flatnonzero(over), infos["final_info"], self._of(np.flatnonzero(~over), infos))
            restarted = np.flatnonzero(over)
        else:
            after, restarted = self._of(np.arange(self.num_envs), infos), begun
        after[terminations] = 0.0
        if self._ends:
            after[truncations] = 0.0
        shaping = self.beta * (self.gamma * after - self._potentials)
        shaping[begun] = 0.0
        self._potentials, self._ended = after, over
        self._begin(restarted, infos)
        infos["raw_reward"], infos["shaping"] = rewards, shaping
        return obs, rewards + shaping, terminations, truncations, infos

    def _begin(self, which: Iterable[int], infos: dict[str, Any]) -> None:
        """Enter the first states of episodes."""
        numbers = np.asarray(which, dtype=np.int64)
        version = self.store if isinstance(self.store, Potentials) else self.store.snapshot()
        for number in numbers.tolist():
            self._versions[number] = version
        self._potentials[numbers] = 0.0
        self._potentials = self._of(numbers, infos)

    def _of(self, which: np.ndarray[Any, Any], infos: dict[str, Any], known: Any = None) -> np.ndarray[Any, Any]:
        """Return the potentials with those of these environments' present states, float64 (N,)."""
        found = self._potentials.copy() if known is None else known
        if len(which):
            tasks, keys, versions = infos["task_id"], infos["state_key"], self._versions
            for number in which.tolist():
                value = versions[number].of(tasks[number], keys[number])
                if value is not None:
                    found[number] = value
                elif not self._carries:
                    found[number] = 0.0
        return found
