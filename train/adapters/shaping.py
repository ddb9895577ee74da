"""Potential-based shaping of the rewards that other trainers' environments give, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import gymnasium as gym

from creditflow.envs.errors import ConfigError
from creditflow.wrappers.dense_reward import DenseReward, make_store
from creditflow.wrappers.feature_potential import FeatureStore, Version
from creditflow.wrappers.history_potential import HISTORY
from creditflow.wrappers.potentials import POTENTIALS, refusal
from creditflow.wrappers.records.jsonl import read_groups

__all__ = ["Shaping"]


@dataclass(frozen=True, kw_only=True)
class Shaping:
    """Potential-based shaping of every step's reward; optimal policies stay optimal (``DenseReward``, ``terminal="zero"``).

    Attributes:
        scheme: "gdcr" or "egrpo", whose potential is known from the task, or a learned one ("grouptd", "rewardflow", …;
            "features" for tasks that are not in the log) with ``potentials``.
        gamma: γ, the trainer's discount; the invariance holds for this one only.
        potentials: potentials learned from recorded episodes; None for one of the task.

    Raises:
        ConfigError: a scheme without a potential, or one whose potentials are missing or would have no effect.
    """

    scheme: str
    gamma: float
    potentials: Version | None = None

    def __post_init__(self) -> None:
        if self.scheme not in (schemes := (*HISTORY, *POTENTIALS, "features")):
            raise refusal(self.scheme, schemes)
        if (self.scheme in HISTORY) != (self.potentials is None):
            raise ConfigError(
                f"{self.scheme} takes its potential from the task, so recorded episodes would have no effect"
                if self.potentials is not None
                else f"the potential of {self.scheme} is learned from recorded episodes: pass a log of them"
            )

    def wrap(self, env: gym.Env[Any, Any]) -> DenseReward:
        """An environment of this package with the shaping."""
        return DenseReward(env, self.scheme, gamma=self.gamma, store=self.potentials)

    @classmethod
    def learned(cls, scheme: str, *, gamma: float, log: str = "") -> Self:
        """The shaping of a scheme whose potentials are those of a log.

        Raises:
            ConfigError: as above, or a log beside a potential of the task.
            DataError: the log is malformed, or has no observations for "features".
        """
        if not log:
            return cls(scheme=scheme, gamma=gamma)
        if scheme in HISTORY:
            raise ConfigError(f"{scheme} takes its potential from the task: a log would have no effect")
        store = make_store(scheme, gamma=gamma)
        if isinstance(store, FeatureStore):
            for group in read_groups(log):
                for member in group.trajectories:
                    if not member.parent:  # a branch lacks the first observation, which states the task
                        store.observe_recorded(member)
        else:
            store.add(read_groups(log))
        return cls(scheme=scheme, gamma=gamma, potentials=store.publish())
