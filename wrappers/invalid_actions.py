"""How invalid actions are handled: one explicit policy instead of a rule in each environment.

An invalid action changes nothing but the step count, and ``info`` states the reason. Its reward is 0, except in Sokoban's preset
``gym_sokoban``, where it costs as much as a step. This wrapper adds the policy, and always reports the environment's own reward in ``info["raw_reward"]``, which ``Recorder``
records: schemes apply penalties themselves.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args, runtime_checkable

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.errors import ConfigError, EpisodeError, short_repr, unknown_name_error
from creditflow.envs.foreign.keys import StateKey
from creditflow.envs.foreign.rules import Success
from creditflow.wrappers.base_env import base_env, recordable

__all__ = ["InvalidActions", "Policy"]

Policy = Literal["keep", "penalise", "retry", "terminate"]


@runtime_checkable
class AddsInfo(Protocol):
    """A wrapper that changes ``info``."""

    def unmoved_info(self, obs: Any, info: dict[str, Any]) -> dict[str, Any]:
        """What it makes of the info of an action that was taken back."""
        ...


class InvalidActions(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Apply a policy to invalid actions.

    Args:
        env: any Gymnasium environment, possibly wrapped. In one that is not creditflow's, an action is invalid if it is not an
            element of the action space (see ``ForeignEnv``).
        policy: "keep" keeps the environment's reward and counts the step; "penalise" also subtracts ``penalty``;
            "retry" answers up to ``retries`` invalid actions in a row without a step of the environment (their reward is 0);
            "terminate" ends the episode, with ``info["stop_reason"] = "format"``.
        penalty: penalty of an invalid action, ≥ 0; credit does not see it, since a record keeps the raw reward.
        retries: number of retries in a row, ≥ 1.
        state_key, success: for a foreign environment: what identifies a state, and what success is; see ``ForeignEnv``.

    Adds to ``info``: ``raw_reward: float``, ``retries_left: int``, ``stop_reason: str`` (the
    environment's own or ""; "format" if the policy ended the episode).

    Raises:
        ConfigError: an unknown policy or a negative number.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        policy: Policy = "keep",
        *,
        penalty: float = 0.1,
        retries: int = 2,
        state_key: str | StateKey | None = None,
        success: str | Success | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, policy=policy, penalty=penalty, retries=retries, state_key=state_key, success=success
        )
        env = recordable(env, "InvalidActions", state_key, success)
        gym.Wrapper.__init__(self, env)
        if policy not in get_args(Policy):
            raise unknown_name_error("invalid-action policy", str(policy), get_args(Policy))
        if not penalty >= 0.0 or retries < 1:
            raise ConfigError(
                f"penalty must be ≥ 0 and retries ≥ 1, got {short_repr(penalty)} and {short_repr(retries)}"
            )
        self._base = base_env(env, "InvalidActions")
        self._beginning = 0  # number of resets and restored snapshots, to notice that the environment was restored
        self.policy, self.penalty, self.retries = policy, penalty, retries
        self._left, self._ended = retries, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._left, self._ended, self._beginning = self.retries, False, self._base.num_starts
        return obs, self._with_policy_info(info, 0.0, "")

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step under the policy.

        Raises:
            EpisodeError: the policy has ended this episode.
        """
        if self._beginning != self._base.num_starts:  # a snapshot was restored
            self._left, self._ended, self._beginning = self.retries, False, self._base.num_starts
        if self._ended:
            raise EpisodeError("the invalid-action policy ended this episode: call reset() before step()")
        if self.policy == "retry" and self._left > 0 and (refused := self._refused(action)):
            self._left -= 1  # nothing inside or below hears of it
            return refused[0], 0.0, False, False, self._with_policy_info(refused[1], 0.0, "")
        obs, reward, terminated, truncated, info = self.env.step(action)
        raw = float(info.get("raw_reward", reward))  # a wrapper inside may have shaped the reward
        if info["action_valid"]:
            self._left = self.retries
            return obs, reward, terminated, truncated, self._with_policy_info(info, raw, "")
        if self.policy == "penalise":
            reward = float(reward) - self.penalty
        elif self.policy == "terminate":
            self._ended = terminated = True
            return obs, reward, True, False, self._with_policy_info({**info, "admissible_actions": ()}, raw, "format")
        return obs, reward, terminated, truncated, self._with_policy_info(info, raw, "")

    def _refused(self, action: Any) -> tuple[Any, dict[str, Any]] | None:
        """Observation and info, as the wrappers inside pass them on, if the environment would reject the action."""
        layer, inside = self.env, list[gym.Wrapper[Any, Any, Any, Any]]()
        while isinstance(layer, gym.Wrapper):
            action = layer.action(action) if isinstance(layer, gym.ActionWrapper) else action
            inside.append(layer)
            layer = layer.env
        if (refused := self._base.refused(action)) is None:
            return None
        obs, info = refused
        for wrapper in reversed(inside):
            if isinstance(wrapper, gym.ObservationWrapper):
                obs = wrapper.observation(obs)
            elif isinstance(wrapper, AddsInfo):
                info = wrapper.unmoved_info(obs, info)
        return obs, info

    def _with_policy_info(self, info: dict[str, Any], raw: float, stop: str) -> dict[str, Any]:
        reason = stop or info.get("stop_reason", "")  # environments may have their own stop reasons
        return {**info, "raw_reward": raw, "retries_left": self._left, "stop_reason": reason}
