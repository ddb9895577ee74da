"""The actions and rewards of an environment as tables by action number, and by event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from creditflow.envs.sokoban.actions import Vocabulary
from creditflow.envs.sokoban.rewards import Rewards
from creditflow.envs.sokoban.vector.boards import GAINS, Boards, Change

__all__ = ["NOTHING", "Moves"]

NOTHING = 4  # the event of a step that changed nothing
PUSH = 512  # see Boards.move
Ints = npt.NDArray[np.int64]


class Moves:
    """Makes the moves that numbers stand for, -1 for none (an invalid action).

    Args:
        vocabulary: the actions.
        rewards: the reward preset.
    """

    def __init__(self, vocabulary: Vocabulary, rewards: Rewards) -> None:
        self._directions = np.array([*(direction for direction, _ in vocabulary.moves), -1])  # the last for number -1
        pushes = [push * PUSH for _, push in vocabulary.moves]
        self._push: Ints | None = None if all(pushes) else np.array([*pushes, 0])
        self._rewards = np.array([rewards.of(int(gain), bool(solved)) for solved in (0, 1) for gain in GAINS])
        self._columns, self._offsets = 0, self._directions

    def make(self, boards: Boards, numbers: Ints) -> Change:
        """Move on every board by the action of this number, int64 (N,)."""
        columns = boards.shape[1]
        if columns != self._columns:
            self._columns, by_direction = columns, np.array([-columns, columns, -1, 1, 0])  # the last for direction -1
            self._offsets = by_direction[self._directions]
        return boards.move(self._offsets.take(numbers), PUSH if self._push is None else self._push.take(numbers))

    def rewards(self, change: Change, solved: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Return the rewards of a step, float64 (N,); ``solved``: whether every box is on a target now."""
        rewards: npt.NDArray[np.float64] = self._rewards.take(change.events | solved.astype(np.uint8) << 4)
        return rewards
