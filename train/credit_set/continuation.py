"""Continuations of the noisy expert from any state of one task, in the environment, each transition executed once.

The environments are deterministic, and equal state keys have equal futures up to the turn limit. The visited states are
therefore stored as a graph, and a transition that was executed before is looked up. The turn limit is counted here; the
environment itself has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import DataError
from creditflow.envs.registration import make
from creditflow.envs.tasks import Task

__all__ = ["NO_LIMIT", "LazyStateGraph", "Outcomes", "State", "unlimited_env"]

NO_LIMIT: Final = 10**6


class State:
    """A visited state.

    Attributes:
        key: state key.
        snapshot: snapshot to continue from.
        actions: admissible actions, sorted, so that their order does not depend on how the state was reached.
        over: whether the episode is terminated here.
        success, score: success and score of an episode that ends here.
        distance: the oracle's distance; None before it is first needed.
        best: the oracle's optimal actions; None before they are first needed.
        following: the states after actions that were executed, by action.
    """

    __slots__ = ("actions", "best", "distance", "following", "key", "over", "score", "snapshot", "success")

    def __init__(self, info: Mapping[str, Any], snapshot: str, over: bool) -> None:
        self.key, self.snapshot, self.over = info["state_key"], snapshot, over
        self.actions: tuple[str, ...] = tuple(sorted(info["admissible_actions"]))
        self.success, self.score = bool(info["success"]), float(info["score"])
        self.distance: float | None = None
        self.best: tuple[str, ...] | None = None
        self.following: dict[str, State] = {}


class Outcomes(NamedTuple):
    """Results of K continuations.

    Attributes:
        success: bool (K,).
        score: float64 (K,).
    """

    success: NDArray[np.bool_]
    score: NDArray[np.float64]


def unlimited_env(name: str, panel: str) -> AgentEnv[Any, Any, Any]:
    """Make an environment without a turn limit, for ``LazyStateGraph``."""
    return cast("AgentEnv[Any, Any, Any]", make(name, panel=panel, max_steps=NO_LIMIT).unwrapped)


class LazyStateGraph:
    """The state graph of one task, which grows as continuations visit new states.

    Args:
        env: an environment of ``unlimited_env``; a new graph on it invalidates the earlier one.
        task: the task.

    Raises:
        DataError: the task's content is that of another task.
    """

    def __init__(self, env: AgentEnv[Any, Any, Any], task: Task) -> None:
        self._env = env
        self._states: dict[str, State] = {}
        _, info = env.reset(seed=0, options={"task": dict(task.content)})
        if info["task_id"] != task.task_id:
            raise DataError(f"the content of task {task.task_id!r} is that of {info['task_id']!r}")
        self._present: State | None = None  # the state that the environment is in, if it is known
        self.start = self._enter(info, over=False)

    def __len__(self) -> int:
        return len(self._states)

    def step(self, state: State, action: str) -> State:
        """The state after an action; a rejected action leaves the state unchanged."""
        after = state.following.get(action)
        if after is None:
            if self._present is not state:
                self._env.set_state(state.snapshot)
            self._present = None
            done = action in state.actions
            _, _, terminated, _, info = self._env.step(self._env.action_from_text(action) if done else action)
            after = state.following[action] = self._enter(info, over=terminated)
        return after

    def best(self, state: State) -> tuple[str, ...]:
        """The oracle's optimal actions, sorted; () if there is none."""
        if state.best is None:
            state.best = self._env.oracle.optimal_actions(state.snapshot)
        return state.best

    def distance(self, state: State) -> float:
        """The oracle's distance to success; inf in a dead state."""
        if state.distance is None:
            state.distance = float(self._env.oracle.distance(state.snapshot))
        return state.distance

    def continuations(self, state: State, left: int, noise: float, count: int, rng: np.random.Generator) -> Outcomes:
        """Continue with ``NoisyExpert(noise)``.

        Args:
            state: state in which the continuations begin.
            left: turns left, at least 0.
            noise: probability of a uniformly random admissible action.
            count: K, number of continuations.
            rng: source of randomness; two numbers are drawn per continuation and turn left.
        """
        draws = rng.random((count, left, 2)).tolist()
        ends = [self._continue(state, noise, numbers) for numbers in draws]
        return Outcomes(np.array([end.success for end in ends], np.bool_), np.array([end.score for end in ends]))

    def _continue(self, state: State, noise: float, numbers: list[list[float]]) -> State:
        for coin, fraction in numbers:
            if state.over:
                break
            actions = (self.best(state) if coin >= noise else ()) or state.actions
            state = self.step(state, actions[int(fraction * len(actions))])
        return state

    def _enter(self, info: Mapping[str, Any], *, over: bool) -> State:
        state = self._states.get(info["state_key"])
        if state is None:
            state = self._states[info["state_key"]] = State(info, self._env.get_state(), over)
        self._present = state if not over else None
        return state
