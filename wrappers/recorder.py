"""``Recorder``: turns an environment's episodes into trajectories, with raw rewards and, if asked, the oracle's view."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.info import INFO_TYPES
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import NO_VALUES, Trajectory, Turn

__all__ = ["Recorder", "full_thought"]


def full_thought(noted: str, info: Mapping[str, Any]) -> str:
    """What the agent noted, and what the environment found around the call in its action (``info["thought"]``)."""
    around = info.get("thought", "")
    return noted if around in noted else around if noted in around else f"{noted}\n{around}"


class Recorder(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Record every episode as a ``Trajectory``. Put it outermost.

    >>> import creditflow
    >>> from creditflow.wrappers import Recorder
    >>> env = Recorder(creditflow.make("sokoban", level="#####\n#@$.#\n#####"))
    >>> _ = env.reset(seed=0)
    >>> _ = env.step("right")
    >>> env.trajectory.stop_reason, env.trajectory.turns[0].action
    ('success', 'right')

    Args:
        env: an ``AgentEnv``, possibly wrapped.
        oracle: write ``value.oracle`` and ``distance.oracle`` of the state before each action, and with ``.next`` of
            the state after it, into the turn's values. A distance of ∞ is written as −1.
        texts: keep observations, thoughts and responses; keys and actions are always kept.
        policy: name of who acts.
    """

    def __init__(self, env: gym.Env[Any, Any], *, oracle: bool = False, texts: bool = True, policy: str = "") -> None:
        RecordConstructorArgs.__init__(self, oracle=oracle, texts=texts, policy=policy)
        gym.Wrapper.__init__(self, env)
        base = env.unwrapped
        if not isinstance(base, AgentEnv):
            raise ConfigError(f"Recorder wraps creditflow environments, got {type(base).__name__}")
        self._base: AgentEnv[Any, Any, Any] = base
        self._oracle, self._texts, self._policy = oracle, texts, policy
        self._names: dict[str, Any] = {}
        self._episodes = 0
        self._beginning = 0  # of the environment, when it was last begun from here
        self._turns: list[Turn] = []
        self._info: dict[str, Any] = {}
        self._observation: Any = ""
        self._known: dict[str, float] = {}
        self._note = {"thought": "", "response": ""}
        self._stop: StopReason | None = None
        self._listener: Callable[..., None] | None = (
            env.get_wrapper_attr("record_response") if env.has_wrapper_attr("record_response") else None
        )

    def set_next_episode(self, **names: Any) -> None:
        """Name the episode that the next ``reset`` begins.

        Args:
            **names: of ``trajectory_id``, ``group_id``, ``replica``, ``seed``, ``trial``, ``parent``, ``fork_turn``.
        """
        allowed = {"trajectory_id", "group_id", "replica", "seed", "trial", "parent", "fork_turn"}
        if unknown := set(names) - allowed:
            raise ConfigError(f"set_next_episode takes {', '.join(sorted(allowed))}; got {', '.join(sorted(unknown))}")
        self._names = names

    def record_response(self, *, thought: str = "", response: str = "") -> None:
        """What the agent thought and said; belongs to the next ``step``. Passed on to a wrapper that listens."""
        if self._listener is not None:
            self._listener(thought=thought, response=response)
        self._note = {"thought": thought, "response": response}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and its record; an unfinished record is dropped."""
        obs, info = self.env.reset(seed=seed, options=options)
        task = str(info["task_id"])
        group = self._names.get("group_id", task)
        self._identity = {
            "trajectory_id": f"{group}/{self._names.get('replica', self._episodes)}",
            "group_id": group,
            "seed": 0 if seed is None else seed,
            **self._names,
            "task_id": task,
            "policy": self._policy,
        }
        self._episodes += 1
        self._names = {}
        self._turns, self._stop = [], None
        self._observation, self._info, self._beginning = obs, info, self._base.num_starts
        self._known = self._ask()
        return obs, info

    def branch(self, snapshot: str) -> tuple[Any, dict[str, Any]]:
        """Put the episode that ``reset`` began, which has no turn yet, into a snapshot of another of the same task.

        Name it before the reset, with ``parent`` and ``fork_turn``. The record begins in the snapshot's state.

        Raises:
            EpisodeError: there is no fresh episode, or the snapshot is of one that is over.
        """
        if self._turns or not self._info or self._stop is not None:
            raise EpisodeError("only an episode that has no turn yet can be put into a snapshot: call reset() first")
        fresh = {key: value for key, value in self._info.items() if key not in INFO_TYPES}
        self._observation, info = self._base.set_state(snapshot)
        if not info["admissible_actions"]:
            raise EpisodeError("a branch begins in the middle of an episode, this snapshot is of its end")
        self._info, self._beginning = {**fresh, **info}, self._base.num_starts
        self._known = self._ask()
        return self._observation, self._info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action and record the turn.

        Raises:
            EpisodeError: no episode has begun here, or the environment was restored behind this wrapper's back.
        """
        if self._beginning != self._base.num_starts or not self._info:
            raise EpisodeError(
                "the record does not know the environment's state: call reset() before step(), and branch(snapshot) to go on "
                "from a snapshot"
            )
        outcome = self.env.step(action)
        obs, reward, terminated, truncated, info = outcome
        before, known = self._info, self._known
        self._known = self._ask()
        self._turns.append(
            Turn(
                state_key=before["state_key"],
                action=action if isinstance(action, str) else str(action),
                next_state_key=info["state_key"],
                reward=float(info.get("raw_reward", reward)),
                parsed=info["action_parsed"],
                admissible=info["action_admissible"],
                effective=info["action_effective"],
                observation=self._observation if self._texts and isinstance(self._observation, str) else "",
                thought=full_thought(self._note["thought"], info) if self._texts else "",
                response=self._note["response"] if self._texts else "",
                text_key=before["text_key"],
                invalid_reason=info["invalid_reason"],
                entities=info.get("entities", ()),
                queries=info.get("queries", ()),
                doc_ids=info.get("doc_ids", ()),
                values={**known, **{f"{k}.next": v for k, v in self._known.items()}} if known else NO_VALUES,
            )
        )
        self._note = {"thought": "", "response": ""}
        self._observation, self._info = obs, info
        if terminated or truncated:
            ended = info.get("stop_reason", "")
            self._stop = ended or ("success" if info["success"] else "failed" if terminated else "env_limit")
        return outcome

    def stop(self, reason: StopReason) -> None:
        """End the record early, for a limit that the environment does not know (tokens, tools) or an error.

        Raises:
            EpisodeError: the episode has ended already.
        """
        if self._stop is not None or not self._info:
            raise EpisodeError("there is no running episode to stop")
        self._stop = reason

    @property
    def base(self) -> AgentEnv[Any, Any, Any]:
        """The bare environment."""
        return self._base

    @property
    def identity(self) -> dict[str, Any]:
        """What the present episode is called in the record: its trajectory_id, group_id, task_id and so on."""
        return dict(self._identity)

    @property
    def finished(self) -> bool:
        """Whether the present episode has ended."""
        return self._stop is not None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the present episode so far."""
        return tuple(self._turns)

    @property
    def trajectory(self) -> Trajectory:
        """The finished episode.

        Raises:
            EpisodeError: it has not ended.
        """
        if self._stop is None:
            raise EpisodeError("the episode has not ended: step on, or stop(reason)")
        return Trajectory(
            turns=tuple(self._turns),
            success=self._info["success"],
            score=self._info["score"],
            stop_reason=self._stop,
            final_state_key=self._info["state_key"],
            final_text_key=self._info["text_key"],
            **self._identity,
        )

    def _ask(self) -> dict[str, float]:
        if not self._oracle:
            return {}
        state = self._base.get_state()
        oracle = self._base.oracle
        distance = oracle.distance(state)
        return {
            "value.oracle": oracle.value(state),
            "distance.oracle": -1.0 if math.isinf(distance) else distance,
        }
