"""``FiniteMDP``: one task as tables, so that values, gradients and improvements of a policy can be computed exactly.

Mathematically a state is a pair (key, turns left); the tables contain keys only, and functions count the turns left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, OracleLimitError

__all__ = ["MAX_TABLE_STATES", "FiniteMDP", "explore"]

MAX_TABLE_STATES: Final = 20_000  # of one task, where the caller sets no other limit

StateT = TypeVar("StateT", bound=Hashable)


@dataclass(frozen=True)
class FiniteMDP:
    """The states that can be reached from one start, by index; every action has a result in every acting state.

    The agent acts in states 0 … S−1; states S … S+E−1 are terminal.

    Attributes:
        name: name of the task.
        keys: S+E state keys.
        text_keys: S+E keys as a text-only method sees them (several states may share one).
        actions: A action texts.
        next_states: int32 (S, A, B), the B possible next states of an action.
        transition_probs: float64 (S, A, B), their probabilities.
        terminal_score: float64 (E,), score of each terminal state.
        terminal_success: bool (E,), whether it is a success.
        limit_score: float64 (S,), score when the turn limit is reached in a state.
        start: index of the initial state.
        horizon: H, the turn limit.
        invalid: index of the invalid action, which every completion without an admissible action is read as; None for none.
        admissible: bool (S, A), which actions are admissible where; None: all but ``invalid``.
    """

    name: str
    keys: tuple[str, ...]
    text_keys: tuple[str, ...]
    actions: tuple[str, ...]
    next_states: NDArray[np.int32]
    transition_probs: NDArray[np.float64]
    terminal_score: NDArray[np.float64]
    terminal_success: NDArray[np.bool_]
    limit_score: NDArray[np.float64]
    start: int
    horizon: int
    invalid: int | None = None
    admissible: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        shape = self.next_states.shape
        if len(shape) != 3 or self.transition_probs.shape != shape or shape[1] != len(self.actions):
            raise ConfigError(
                f"MDP {self.name}: next_states and transition_probs must be (S, A, B) with A = {len(self.actions)} actions, "
                f"got {shape} and {self.transition_probs.shape}"
            )
        if len(self.keys) != shape[0] + len(self.terminal_score) or len(self.text_keys) != len(self.keys):
            raise ConfigError(
                f"MDP {self.name}: {len(self.keys)} keys for {shape[0]} + {len(self.terminal_score)} states"
            )
        if not np.allclose(self.transition_probs.sum(axis=2), 1.0):
            raise ConfigError(f"MDP {self.name}: the transition probabilities of an action must sum to 1")

    @property
    def size(self) -> int:
        """S, the number of acting states."""
        return int(self.next_states.shape[0])

    @property
    def deterministic(self) -> bool:
        """Whether every action has exactly one next state."""
        return bool(self.next_states.shape[2] == 1)

    @cached_property
    def values_at_limit(self) -> NDArray[np.float64]:
        """float64 (S+E,): the score of an episode that ends in each state."""
        return np.concatenate([self.limit_score, self.terminal_score])

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Index of each state key."""
        return {key: i for i, key in enumerate(self.keys)}

    @cached_property
    def key_number(self) -> NDArray[np.int32]:
        """int32 (S+E,): for each state the first one with the same key; states with one key differ only in their prompts."""
        first: dict[str, int] = {}
        return np.array([first.setdefault(key, i) for i, key in enumerate(self.keys)], np.int32)

    @cached_property
    def action_number(self) -> NDArray[np.int32]:
        """int32 (A,): for each action the first one with the same text; these differ only in what was written before them."""
        first: dict[str, int] = {}
        return np.array([first.setdefault(action, i) for i, action in enumerate(self.actions)], np.int32)

    @cached_property
    def valid(self) -> NDArray[np.bool_]:
        """bool (S, A): whether the action is valid in the state."""
        valid = np.ones((self.size, len(self.actions)), np.bool_)
        if self.admissible is not None:
            valid &= self.admissible
        if self.invalid is not None:
            valid[:, self.invalid] = False
        return valid

    @cached_property
    def likely(self) -> NDArray[np.int32]:
        """int32 (S, A): the most likely next state of each action."""
        best = self.transition_probs.argmax(axis=2)[:, :, None]
        result: NDArray[np.int32] = np.take_along_axis(self.next_states, best, axis=2)[:, :, 0]
        return result

    @cached_property
    def distance(self) -> NDArray[np.float64]:
        """float64 (S+E,): fewest turns to success if every action has its most likely result; inf: unreachable.

        A state that can only be reached in the last turn may count as unable to reach success.
        """
        distance = np.concatenate([np.full(self.size, np.inf), np.where(self.terminal_success, 0.0, np.inf)])
        while True:
            nearer = 1.0 + distance[self.likely].min(axis=1)
            if (nearer >= distance[: self.size]).all():
                return distance
            distance[: self.size] = np.minimum(distance[: self.size], nearer)

    @cached_property
    def optimal(self) -> NDArray[np.bool_]:
        """bool (S, A): first actions of shortest paths to success; all False in dead states."""
        best = self.distance[self.likely]
        optimal: NDArray[np.bool_] = np.isfinite(best) & (best == self.distance[: self.size, None] - 1.0)
        return optimal


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

    A state exactly ``horizon`` turns away is its own next state: no rollout ever acts there.

    Args:
        start: initial state.
        actions: action texts.
        results: (state, action index) -> (next state, its score or None while the episode continues, success).
        keys: state key and text key of a state.
        name, horizon: of the MDP.
        cap: maximum number of acting states.
        limit_score: score when the turn limit is reached in a state.

    Raises:
        OracleLimitError: more than ``cap`` states.
    """
    exploration = _Exploration(start)
    rows = list[list[int]]()
    for index, state in enumerate(exploration.acting):  # grows while it is iterated
        if exploration.depth[index] >= horizon:
            rows.append([index] * len(actions))
            continue
        row = []
        for action in range(len(actions)):
            after, score, success = results(state, action)
            if score is not None:
                row.append(exploration.terminal(after, score, success))
            elif after not in exploration.index and len(exploration.acting) >= cap:
                raise OracleLimitError(f"{name}: more than {cap} states can be reached; raise the limit (--max-states)")
            else:
                row.append(exploration.visit(after, exploration.depth[index] + 1))
        rows.append(row)
    table = np.array(rows, np.int32)
    table = np.where(table < 0, len(exploration.acting) - 1 - table, table).astype(np.int32)[:, :, None]
    names = [keys(state) for state in [*exploration.acting, *exploration.terminals]]
    return FiniteMDP(
        name=name,
        keys=tuple(key for key, _ in names),
        text_keys=tuple(text for _, text in names),
        actions=tuple(actions),
        next_states=table,
        transition_probs=np.ones(table.shape),
        terminal_score=np.array(exploration.scores, np.float64),
        terminal_success=np.array(exploration.successes, np.bool_),
        limit_score=np.array([limit_score(state) for state in exploration.acting], np.float64),
        start=0,
        horizon=horizon,
    )


class _Exploration(Generic[StateT]):
    """The states found so far: acting states are numbered from 0, terminal ones −1, −2 and so on."""

    def __init__(self, start: StateT) -> None:
        self.acting, self.depth = [start], [0]
        self.index: dict[StateT, int] = {start: 0}
        self.terminals: dict[StateT, int] = {}
        self.scores, self.successes = list[float](), list[bool]()

    def visit(self, state: StateT, depth: int) -> int:
        """Index of an acting state, which is added if it is new."""
        if state not in self.index:
            self.index[state] = len(self.acting)
            self.acting.append(state)
            self.depth.append(depth)
        return self.index[state]

    def terminal(self, state: StateT, score: float, success: bool) -> int:
        """Index of a terminal state, which is added if it is new."""
        if state not in self.terminals:
            self.terminals[state] = -1 - len(self.terminals)
            self.scores.append(score)
            self.successes.append(success)
        return self.terminals[state]
