"""``Recorder``: records episodes as trajectories, with raw rewards and, on request, oracle values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, DataError, EpisodeError, short_repr
from creditflow.envs.foreign.keys import StateKey
from creditflow.envs.foreign.rules import Success
from creditflow.envs.info import INFO_TYPES
from creditflow.wrappers.base_env import base_env, recordable
from creditflow.wrappers.records.picture_folder import PictureFolder
from creditflow.wrappers.records.pictures import picture_in, picture_of
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import NO_VALUES, Trajectory, Turn, is_number

__all__ = ["Recorder", "action_key", "full_thought", "recorded_turn", "stop_reason"]


def full_thought(recorded: str, info: Mapping[str, Any]) -> str:
    """Join the agent's thought and the text around the call in its action (``info["thought"]``)."""
    around = info.get("thought", "")
    if around in recorded:
        return recorded
    if recorded in around:
        return str(around)
    return f"{recorded}\n{around}"


def recorded_turn(
    before: Mapping[str, Any],
    action: str,
    reward: float,
    after: Mapping[str, Any],
    *,
    observation: str = "",
    thought: str = "",
    response: str = "",
    invalid_reason: str = "",
    images: tuple[str, ...] = (),
    values: Mapping[str, float] = NO_VALUES,
    action_key: str = "",
) -> Turn:
    """The record of one step.

    Args:
        before, after: the environment's ``info`` before and after the step.
        action: text of the action.
        reward: the raw reward.
        observation, thought, response, images, values, action_key: fields of the turn.
        invalid_reason: why the policy's text does not follow its format; "" leaves it to the environment.
    """
    return Turn(
        state_key=before["state_key"],
        action=action,
        next_state_key=after["state_key"],
        reward=reward,
        parsed=after["action_parsed"] and not invalid_reason,
        admissible=after["action_admissible"],
        effective=after["action_effective"],
        observation=observation,
        thought=thought,
        response=response,
        text_key=before["text_key"],
        invalid_reason=invalid_reason or after["invalid_reason"],
        entities=after.get("entities", ()),
        queries=after.get("queries", ()),
        doc_ids=after.get("doc_ids", ()),
        images=images,
        values=values or NO_VALUES,
        action_key=action_key,
    )


def action_key(env: AgentEnv[Any, Any, Any], action: Any, info: Mapping[str, Any]) -> str:
    """The spelling that an environment gives an action that it has executed, if it was written otherwise ("Left" for "left"); else ""."""
    if not isinstance(action, str) or not info["action_valid"]:
        return ""
    return "" if env.action_spelling == env.action_to_text(action) else env.action_spelling


def stop_reason(info: Mapping[str, Any], terminated: bool) -> StopReason:
    """Why an episode that is over has ended."""
    reported: StopReason | None = info.get("stop_reason") or None
    if reported is not None:
        return reported
    if info["success"]:
        return "success"
    return "failed" if terminated else "env_limit"


class _Response(NamedTuple):
    """What the policy wrote for the next step; see ``Recorder.record_response``."""

    thought: str = ""
    response: str = ""
    invalid_reason: str = ""


class Recorder(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Record every episode as a ``Trajectory``. Must be the outermost wrapper.

    >>> import creditflow
    >>> from creditflow.wrappers import Recorder
    >>> env = Recorder(creditflow.make("sokoban", level="#####\n#@$.#\n#####"))
    >>> _ = env.reset(seed=0)
    >>> _ = env.step("right")
    >>> env.trajectory.stop_reason, env.trajectory.turns[0].action
    ('success', 'right')

    Args:
        env: any Gymnasium environment, possibly wrapped. One that is not creditflow's is played as a ``ForeignEnv``, which says
            what is promised about it.
        state_key, success: for such an environment: what identifies a state, and what success is; see ``ForeignEnv``.
        oracle: write ``value.oracle`` and ``distance.oracle`` of the state before each action, and with ``.next`` of
            the state after it, into the turn's values. A distance of ∞ is written as −1.
        texts: record observations, thoughts and responses; keys and actions are always recorded.
        policy: name of the policy.
        pictures: folder where the pictures in observations are stored, each once, and named in the turns; "" stores none.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        state_key: str | StateKey | None = None,
        success: str | Success | None = None,
        oracle: bool = False,
        texts: bool = True,
        policy: str = "",
        pictures: str = "",
    ) -> None:
        RecordConstructorArgs.__init__(
            self, state_key=state_key, success=success, oracle=oracle, texts=texts, policy=policy, pictures=pictures
        )
        env = recordable(env, "Recorder", state_key, success)
        gym.Wrapper.__init__(self, env)
        self._base = base_env(env, "Recorder")
        self._oracle, self._texts, self._policy = oracle, texts, policy
        self._names: dict[str, Any] = {}
        self._episodes = 0
        self._beginning = 0  # number of resets and restored snapshots when the record was last in step with it
        self._turns: list[Turn] = []
        self._info: dict[str, Any] = {}
        self._observation = ""
        self._images: tuple[str, ...] = ()
        self._pictures = PictureFolder(pictures) if pictures else None
        self._oracle_values: dict[str, float] = {}
        self._pending = _Response()
        self._stop: StopReason | None = None
        self._listener: Callable[..., None] | None = (
            env.get_wrapper_attr("record_response") if env.has_wrapper_attr("record_response") else None
        )

    def set_next_episode(self, **names: Any) -> None:
        """Set the record's fields for the episode that the next ``reset`` starts.

        Args:
            **names: any of ``trajectory_id``, ``group_id``, ``replica``, ``seed``, ``trial``, ``parent``, ``fork_turn``.
        """
        allowed = {"trajectory_id", "group_id", "replica", "seed", "trial", "parent", "fork_turn"}
        if unknown := set(names) - allowed:
            raise ConfigError(f"set_next_episode takes {', '.join(sorted(allowed))}; got {', '.join(sorted(unknown))}")
        self._names = names

    def record_response(self, *, thought: str = "", response: str = "", invalid_reason: str = "") -> None:
        """Record what the policy wrote for the next ``step``; thought and response are forwarded to inner wrappers.

        Args:
            thought, response: the policy's reasoning, and its whole text.
            invalid_reason: why the text does not follow the format that the policy was told ("" if it does). The turn is
                then recorded as not parsed, for this reason, even where the environment could execute an action in it.
        """
        if self._listener is not None:
            self._listener(thought=thought, response=response)
        self._pending = _Response(thought, response, invalid_reason)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode and its record; an unfinished record is dropped."""
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
        self._info, self._beginning = info, self._base.num_starts
        self._see(obs)
        self._oracle_values = self._query_oracle()
        return obs, info

    def branch(self, snapshot: str) -> tuple[Any, dict[str, Any]]:
        """Continue the episode that ``reset`` started from a snapshot of another episode of the same task.

        Call ``set_next_episode`` with ``parent`` and ``fork_turn`` before the reset. The record starts in the snapshot's
        state.

        Raises:
            EpisodeError: there is no episode without turns, or the snapshot is of a finished episode.
        """
        if self._turns or not self._info or self._stop is not None:
            raise EpisodeError("only an episode without turns can continue from a snapshot: call reset() first")
        extra = {key: value for key, value in self._info.items() if key not in INFO_TYPES}
        obs, info = self._base.set_state(snapshot)
        if self._base.is_over:
            raise EpisodeError("a branch must start before the end of an episode, but this snapshot is of its end")
        self._info, self._beginning = {**extra, **info}, self._base.num_starts
        self._see(obs)
        self._oracle_values = self._query_oracle()
        return obs, self._info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and record the turn.

        Raises:
            EpisodeError: no episode has started, it was stopped, or the environment was restored outside this wrapper.
            DataError: the environment returned a reward that is not finite or a score outside [0, 1]; the turn is not recorded.
        """
        if self._beginning != self._base.num_starts or not self._info:
            raise EpisodeError(
                "the environment was reset or restored outside this wrapper: call reset() before step(), and "
                "branch(snapshot) to continue from a snapshot"
            )
        if self._stop is not None:
            raise EpisodeError(f"the episode has ended ({self._stop}): call reset() before step()")
        outcome = self.env.step(action)
        obs, reward, terminated, truncated, info = outcome
        reward, score = info.get("raw_reward", reward), info["score"]
        if not is_number(reward) or not is_number(score) or not 0.0 <= score <= 1.0:
            raise DataError(
                f"{self._base.env_name}: a reward must be finite and a score lie in [0, 1], got reward {short_repr(reward)} and "
                f"score {short_repr(score)}"
            )
        before, oracle_values, written = self._info, self._oracle_values, self._pending
        self._oracle_values = self._query_oracle()
        values = {**oracle_values, **{f"{name}.next": value for name, value in self._oracle_values.items()}}
        self._turns.append(
            recorded_turn(
                before,
                self._base.action_to_text(action),
                float(reward),
                info,
                observation=self._observation,
                thought=full_thought(written.thought, info) if self._texts else "",
                response=written.response if self._texts else "",
                invalid_reason=written.invalid_reason,
                images=self._images,
                values=values,
                action_key=action_key(self._base, action, info),
            )
        )
        self._pending = _Response()
        self._info = info
        self._see(obs)
        if terminated or truncated:
            self._stop = stop_reason(info, terminated)
        return outcome

    def stop(self, reason: StopReason) -> None:
        """End the record early, at a limit outside the environment (tokens, tools) or by an error.

        Raises:
            EpisodeError: the episode has already ended.
        """
        if self._stop is not None or not self._info:
            raise EpisodeError("there is no running episode to stop")
        self._stop = reason

    @property
    def base(self) -> AgentEnv[Any, Any, Any]:
        """The unwrapped environment."""
        return self._base

    @property
    def identity(self) -> dict[str, Any]:
        """Identifying fields of the current episode's record: trajectory_id, group_id, task_id and so on."""
        return dict(self._identity)

    @property
    def finished(self) -> bool:
        """Whether the current episode has ended."""
        return self._stop is not None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the current episode so far."""
        return tuple(self._turns)

    @property
    def num_turns(self) -> int:
        """Number of turns of the current episode so far."""
        return len(self._turns)

    @property
    def trajectory(self) -> Trajectory:
        """The finished episode.

        Raises:
            EpisodeError: the episode has not ended.
        """
        if self._stop is None:
            raise EpisodeError("the episode has not ended: continue with step(), or call stop(reason)")
        return Trajectory(
            turns=tuple(self._turns),
            success=self._info["success"],
            score=self._info["score"],
            stop_reason=self._stop,
            final_state_key=self._info["state_key"],
            final_text_key=self._info["text_key"],
            **self._identity,
        )

    def _see(self, observation: Any) -> None:
        """Keep what the next turn records of an observation: its text, and the name of its picture, which is stored."""
        self._observation = (self._base.observation_text(observation) or "") if self._texts else ""
        pixels = None if self._pictures is None else picture_in(observation)
        self._images = ()
        if self._pictures is not None and pixels is not None:
            picture = picture_of(pixels)
            self._pictures.write(picture)
            self._images = (picture.name,)

    def _query_oracle(self) -> dict[str, float]:
        if not self._oracle:
            return {}
        state = self._base.get_state()
        oracle = self._base.oracle
        distance = oracle.distance(state)
        return {"value.oracle": oracle.value(state), "distance.oracle": -1.0 if math.isinf(distance) else distance}
