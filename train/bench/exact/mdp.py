"""``FiniteMDP``: one task as tables, so that values, gradients and improvements of a policy are exact numbers.

A state is a (key, turns left) pair in the mathematics; the tables hold keys only, and time is counted outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, OracleLimitError

__all__ = ["FiniteMDP", "explore", "tabulate"]

StateT = TypeVar("StateT", bound=Hashable)


@dataclass(frozen=True)
class FiniteMDP:
    """States that play can reach from one start, numbered; all actions are admissible in every acting state.

    States 0 … S−1 act, states S … S+E−1 are ends.

    Attributes:
        name: of the task.
        keys: S+E state keys.
        text_keys: S+E keys as a text-only method sees them (several states may share one).
        actions: A action texts.
        successor: int32 (S, A, B), the B possible next states of an action.
        chance: float64 (S, A, B), their probabilities.
        end_score: float64 (E,), the outcome at each end.
        end_success: bool (E,).
        limit_score: float64 (S,), the outcome when the turn limit falls on a state.
        start: number of the start state.
        horizon: H, the turn limit.
    """

    name: str
    keys: tuple[str, ...]
    text_keys: tuple[str, ...]
    actions: tuple[str, ...]
    successor: NDArray[np.int32]
    chance: NDArray[np.float64]
    end_score: NDArray[np.float64]
    end_success: NDArray[np.bool_]
    limit_score: NDArray[np.float64]
    start: int
    horizon: int

    def __post_init__(self) -> None:
        shape = self.successor.shape
        if len(shape) != 3 or self.chance.shape != shape or shape[1] != len(self.actions):
            raise ConfigError(f"MDP {self.name}: successor and chance must be (S, A, B), got {shape}")
        if len(self.keys) != shape[0] + len(self.end_score) or len(self.text_keys) != len(self.keys):
            raise ConfigError(f"MDP {self.name}: {len(self.keys)} keys for {shape[0]} + {len(self.end_score)} states")
        if not np.allclose(self.chance.sum(axis=2), 1.0):
            raise ConfigError(f"MDP {self.name}: the chances of an action must sum to 1")

    @property
    def size(self) -> int:
        """S, the number of acting states."""
        return int(self.successor.shape[0])

    @property
    def deterministic(self) -> bool:
        """Whether every action has one result."""
        return bool(self.successor.shape[2] == 1)

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Number of each state key."""
        return {key: i for i, key in enumerate(self.keys)}

    @cached_property
    def likely(self) -> NDArray[np.int32]:
        """int32 (S, A): the most likely result of each action."""
        best = self.chance.argmax(axis=2)[:, :, None]
        result: NDArray[np.int32] = np.take_along_axis(self.successor, best, axis=2)[:, :, 0]
        return result

    @cached_property
    def distance(self) -> NDArray[np.float64]:
        """float64 (S+E,): fewest turns to a success when every action has its most likely result; inf: no way.

        A state that the turn limit keeps play from leaving again may count as having no way.
        """
        known = np.concatenate([np.full(self.size, np.inf), np.where(self.end_success, 0.0, np.inf)])
        while True:
            nearer = 1.0 + known[self.likely].min(axis=1)
            if (nearer >= known[: self.size]).all():
                return known
            known[: self.size] = np.minimum(known[: self.size], nearer)

    @cached_property
    def optimal(self) -> NDArray[np.bool_]:
        """bool (S, A): actions that begin a shortest way; all False in dead states."""
        best = self.distance[self.likely]
        good: NDArray[np.bool_] = np.isfinite(best) & (best == self.distance[: self.size, None] - 1.0)
        return good

    @property
    def dead_share(self) -> float:
        """Share of acting states from which success is out of reach."""
        return float(np.isinf(self.distance[: self.size]).mean())


def explore(
    start: StateT,
    actions: Sequence[str],
    results: Callable[[StateT, int], tuple[StateT, float | None, bool]],
    keys: Callable[[StateT], tuple[str, str]],
    *,
    name: str,
    horizon: int,
    cap: int,
    limit_score: Callable[[StateT], float] = lambda _: 0.0,
) -> FiniteMDP:
    """Tabulate a deterministic task breadth-first; states more than ``horizon`` turns away are not visited.

    A state on the rim keeps itself as successor: no rollout ever acts there.

    Args:
        start: the first state.
        actions: action texts.
        results: (state, action number) -> (next state, its outcome or None while play goes on, success).
        keys: state key and text key of a state.
        name, horizon: of the MDP.
        cap: most states.
        limit_score: outcome when the turn limit falls on a state.

    Raises:
        OracleLimitError: more than ``cap`` states.
    """
    number: dict[StateT, int] = {start: 0}
    acting, rows = [start], list[list[int]]()
    ends: dict[StateT, int] = {}
    end_states, end_score, end_success = list[StateT](), list[float](), list[bool]()
    depth = {start: 0}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if depth[state] >= horizon:
            rows.append([number[state]] * len(actions))
            continue
        row = []
        for action in range(len(actions)):
            after, outcome, success = results(state, action)
            if outcome is not None:
                if after not in ends:
                    ends[after] = -1 - len(ends)
                    end_states.append(after)
                    end_score.append(outcome)
                    end_success.append(success)
                row.append(ends[after])
                continue
            if after not in number:
                if len(number) >= cap:
                    raise OracleLimitError(f"{name}: play reaches more than {cap} states; raise the cap")
                number[after] = len(number)
                depth[after] = depth[state] + 1
                acting.append(after)
                queue.append(after)
            row.append(number[after])
        rows.append(row)
    table = np.array(rows, np.int32)
    table = np.where(table < 0, len(acting) - 1 - table, table).astype(np.int32)[:, :, None]
    names = [keys(state) for state in [*acting, *end_states]]
    return FiniteMDP(
        name=name,
        keys=tuple(key for key, _ in names),
        text_keys=tuple(text for _, text in names),
        actions=tuple(actions),
        successor=table,
        chance=np.ones(table.shape),
        end_score=np.array(end_score, np.float64),
        end_success=np.array(end_success, np.bool_),
        limit_score=np.array([limit_score(state) for state in acting], np.float64),
        start=0,
        horizon=horizon,
    )


def tabulate(env: gym.Env[Any, Any], *, cap: int = 20_000) -> FiniteMDP:
    """The present task of any deterministic ``AgentEnv``, from its present state, through its own snapshots.

    Slow (one restored snapshot per state and action) and general; its step count is taken as 0.

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
    taken, horizon = info["elapsed_steps"], base.max_steps - info["elapsed_steps"]
    # one snapshot stands for each key; the shallowest, so that it may still act
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
    assert base.elapsed_steps == taken  # noqa: S101 - the snapshot holds it
    return mdp
