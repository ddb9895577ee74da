"""``by_moves``: turns of several moves as single moves, for state graphs and schemes with one edge per move.

A log records a turn: its action (``right right up``), the states before and after it, and the sum of its rewards. What the moves
did is a function of these, so it is not stored: the turns are replayed in the environment, whose ``info`` has every move's reward and state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.errors import ConfigError, TrajectoryError
from creditflow.wrappers.base_env import base_env
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["MoveGroup", "by_moves"]


class MoveGroup(NamedTuple):
    """A group whose turns are moves.

    Attributes:
        group: the group; a move has the turn's observation, thought and response if it is the turn's first, and no tokens.
        turn: int64 (M,): for each move, the index of its turn among all turns of the original group. The credit of a turn is
            what a caller makes of its moves', for example their sum: ``np.bincount(turn, flat_advantages, minlength=N)``.
    """

    group: Group
    turn: NDArray[np.int64]


def by_moves(group: Group, env: gym.Env[Any, Any]) -> MoveGroup:
    r"""Split every turn of several moves into its moves; other turns, invalid ones too, stay as they are.

    >>> import creditflow
    >>> from creditflow.wrappers import GroupEnv, StateGraph, by_moves
    >>> make = lambda: creditflow.make("sokoban", level="######\n#@ $.#\n######", moves_per_turn=3)
    >>> played = GroupEnv(make, size=1)
    >>> _ = played.reset(seed=0)
    >>> _ = played.step({0: "right right"})
    >>> moves = by_moves(played.group(), make())
    >>> len(StateGraph.from_group(played.group()).source), len(StateGraph.from_group(moves.group).source), moves.turn
    (1, 2, array([0, 0]))

    Args:
        group: recorded in an environment with these arguments.
        env: a deterministic environment whose ``info`` has ``moves``, ``move_rewards`` and ``move_state_keys``; it is reset.

    Raises:
        ConfigError: another environment, or a group with branches.
        TrajectoryError: the environment does not repeat a recorded turn.
    """
    base = base_env(env, "by_moves")
    if any(trajectory.parent for trajectory in group.trajectories):
        raise ConfigError("by_moves replays whole episodes, but this group has branches; leave them out")
    split, owner, before = [], [], 0
    for trajectory in group.trajectories:
        turns, owners = _moves(trajectory, group.task, base)
        split.append(replace(trajectory, turns=tuple(turns), tokens=None))
        owner += [before + number for number in owners]
        before += len(trajectory.turns)
    return MoveGroup(Group(tuple(split), group.task), np.array(owner, dtype=np.int64))


def _moves(trajectory: Trajectory, task: Mapping[str, Any], env: Any) -> tuple[list[Turn], list[int]]:
    """Return the moves of a trajectory, and the number of each move's turn."""
    _, info = env.reset(options={"task": dict(task)} if task else {"task_id": trajectory.task_id})
    if "move_state_keys" not in info:
        raise ConfigError("by_moves needs an environment that records moves, such as sokoban with moves_per_turn=3")
    turns: list[Turn] = []
    owners: list[int] = []
    for number, turn in enumerate(trajectory.turns):
        if info["state_key"] != turn.state_key or not info["admissible_actions"]:
            raise TrajectoryError(
                f"trajectory {trajectory.trajectory_id!r}: turn {number} does not begin in the state that the environment replays; "
                "make it with the arguments that the log was recorded with"
            )
        info = env.step(turn.action)[4]
        moves = _split(turn, info)
        if turn.valid and not math.isclose(sum(move.reward for move in moves), turn.reward, abs_tol=1e-9):
            raise TrajectoryError(
                f"trajectory {trajectory.trajectory_id!r}: turn {number} has reward {turn.reward:g}, but its moves have "
                f"{sum(move.reward for move in moves):g} together; make the environment with the arguments that the log was recorded with"
            )
        turns += moves
        owners += [number] * len(moves)
        if turns[-1].next_state_key != turn.next_state_key:
            raise TrajectoryError(
                f"trajectory {trajectory.trajectory_id!r}: turn {number} ends in another state than the environment replays; "
                "make it with the arguments that the log was recorded with"
            )
    return turns, owners


def _split(turn: Turn, info: Mapping[str, Any]) -> list[Turn]:
    if not turn.valid or not info["moves"]:
        return [turn]
    same = turn.text_key == turn.state_key
    at = turn.state_key
    moves: list[Turn] = []
    for action, reward, key in zip(info["moves"], info["move_rewards"], info["move_state_keys"], strict=True):
        first = not moves
        text_key = turn.text_key if first else ""
        moves.append(
            replace(
                turn,
                state_key=at,
                action=action,
                next_state_key=key,
                reward=reward,
                effective=key != at,
                text_key=at if same else text_key,
                observation=turn.observation if first else "",
                thought=turn.thought if first else "",
                response=turn.response if first else "",
                action_key="",
            )
        )
        at = key
    return moves
