"""What a refused action costs: the one explicit policy, instead of a rule hidden in each environment.

Environments never punish: a refused action changes nothing but the step count and says why. This wrapper decides the
rest, and always reports the environment's own reward in ``info["raw_reward"]``, which is what ``Recorder`` keeps:
schemes apply penalties themselves.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError, short_repr, unknown_name_error

__all__ = ["InvalidActions", "Policy"]

Policy = Literal["keep", "penalise", "retry", "terminate"]


class InvalidActions(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Apply a policy to refused actions.

    Args:
        env: an ``AgentEnv``, possibly wrapped.
        policy: "keep" pays what the environment paid and counts the step; "penalise" also subtracts ``penalty``;
            "retry" gives up to ``retries`` refused actions in a row back without counting a step (their reward is 0);
            "terminate" ends the episode, with ``info["stop_reason"] = "format"``.
        penalty: ≥ 0.
        retries: ≥ 1.

    Adds to ``info``: ``raw_reward: float``, ``retries_left: int``, ``stop_reason: str`` (the
    environment's own, "" where it has none; "format").

    Raises:
        ConfigError: an unknown policy or a negative number.
    """

    def __init__(
        self, env: gym.Env[Any, Any], policy: Policy = "keep", *, penalty: float = 0.1, retries: int = 2
    ) -> None:
        RecordConstructorArgs.__init__(self, policy=policy, penalty=penalty, retries=retries)
        gym.Wrapper.__init__(self, env)
        if policy not in get_args(Policy):
            raise unknown_name_error("invalid-action policy", str(policy), get_args(Policy))
        if not penalty >= 0.0 or retries < 1:
            raise ConfigError(
                f"penalty must be ≥ 0 and retries ≥ 1, got {short_repr(penalty)} and {short_repr(retries)}"
            )
        base = env.unwrapped
        if not isinstance(base, AgentEnv):
            raise ConfigError(f"InvalidActions wraps creditflow environments, got {type(base).__name__}")
        self._base: AgentEnv[Any, Any, Any] = base
        self._beginning = 0  # the environment's beginning that the next two belong to
        self.policy, self.penalty, self.retries = policy, penalty, retries
        self._left, self._ended = retries, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._left, self._ended, self._beginning = self.retries, False, self._base.num_starts
        return obs, self._told(info, 0.0, "")

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action under the policy.

        Raises:
            EpisodeError: the policy has ended this episode.
        """
        if self._beginning != self._base.num_starts:  # a snapshot was restored
            self._left, self._ended, self._beginning = self.retries, False, self._base.num_starts
        if self._ended:
            raise EpisodeError("the invalid-action policy ended this episode: call reset() before step()")
        obs, reward, terminated, truncated, info = self.env.step(action)
        raw = float(reward)
        if info["action_valid"]:
            self._left = self.retries
            return obs, reward, terminated, truncated, self._told(info, raw, "")
        if self.policy == "penalise":
            reward = raw - self.penalty
        elif self.policy == "terminate":
            self._ended = terminated = True
            return obs, reward, True, False, self._told({**info, "admissible_actions": ()}, raw, "format")
        elif self.policy == "retry" and self._left > 0:
            self._left -= 1
            obs, fresh = self._base.undo_step_count()
            kept = {k: info[k] for k in ("action_parsed", "action_admissible", "action_valid", "invalid_reason")}
            return obs, 0.0, False, False, self._told({**fresh, **kept}, 0.0, "")
        return obs, reward, terminated, truncated, self._told(info, raw, "")

    def _told(self, info: dict[str, Any], raw: float, stop: str) -> dict[str, Any]:
        ended = stop or info.get("stop_reason", "")  # an environment may have limits of its own
        return {**info, "raw_reward": raw, "retries_left": self._left, "stop_reason": ended}
