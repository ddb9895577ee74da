"""The environment of the recipe "add an environment": walk right to the end of a corridor."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import DataError, EpisodeError
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import PanelRow, RowTasks, Task, content_id

__all__ = ["CorridorEnv"]

ACTIONS = ("left", "right")
MAX_LENGTH = 1_000


def build_task(content: Any) -> Task:
    """The task of a content ``{"length": n}``.

    Raises:
        DataError: the content is something else.
    """
    length = content.get("length") if isinstance(content, Mapping) and set(content) == {"length"} else None
    if type(length) is not int or not 2 <= length <= MAX_LENGTH:
        raise DataError(f"a corridor is {{'length': an integer from 2 to {MAX_LENGTH}}}, got {content!r:.80}")
    name = content_id("corridor1", content)
    return Task(name, name, dict(content))


def rows() -> list[PanelRow]:
    """Corridors of 3 to 8 cells."""
    return [PanelRow(build_task({"length": n}).task_id, "train", {"length": n}, {}) for n in range(3, 9)]


class CorridorEnv(AgentEnv[str, str, int]):
    """Walk right; the reward is 1 at the end of the corridor.

    Args:
        max_steps: limit of an episode.
    """

    env_name: ClassVar[str] = "corridor"

    def __init__(self, *, max_steps: int = 20) -> None:
        super().__init__(tasks=RowTasks("corridor", rows(), build_task), max_steps=max_steps)
        self.observation_space = TextSpace()
        self.action_space = TextSpace(ACTIONS)
        self._cell = self._length = 0

    def _start(self, task: Task) -> None:
        self._cell, self._length = 0, task.content["length"]

    def _parse(self, action: Any) -> tuple[int | None, str]:
        if action in ACTIONS:
            return ACTIONS.index(action), ""
        return None, "expected left or right"

    def _rejection_reason(self, action: int) -> str:
        return "a wall is on the left" if action == 0 and self._cell == 0 else ""

    def _apply(self, action: int) -> Outcome:
        self._cell += 1 if action else -1
        done = self._cell == self._length - 1
        return Outcome(float(done), done, True)

    def _invalid_action_reward(self) -> float:
        return 0.0

    def _observe(self) -> str:
        return "." * self._cell + "P" + "." * (self._length - self._cell - 1)

    def _keys(self) -> tuple[str, str]:
        key = f"{self._length}:{self._cell}"
        return key, key

    def _admissible(self) -> tuple[str, ...]:
        return ACTIONS if self._cell else ACTIONS[1:]

    def _progress(self) -> tuple[bool, float]:
        done = self._cell == self._length - 1
        return done, float(done)

    def get_state(self) -> str:
        """The snapshot."""
        if self._task is None:
            raise EpisodeError("there is no state yet: call reset() first")
        return json.dumps({"length": self._length, "cell": self._cell, "steps": self.elapsed_steps})

    def set_state(self, snapshot: str) -> tuple[str, dict[str, Any]]:
        """Restore a snapshot.

        Raises:
            DataError: not a snapshot.
        """
        try:
            data = json.loads(snapshot)
            task, cell, steps = build_task({"length": data["length"]}), data["cell"], data["steps"]
            if not (type(cell) is type(steps) is int and 0 <= cell < task.content["length"] and steps >= 0):
                raise ValueError("a cell of the corridor and a number of steps are expected")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"not a corridor snapshot: {snapshot!r:.80}: {error}") from error
        self._begin(task, steps)
        self._cell = cell
        self._over = cell == self._length - 1 or steps >= self.max_steps
        return self._observe(), self._info(True, True, True, "")

    @property
    def oracle(self) -> CorridorOracle:
        """Exact distances; takes snapshots."""
        return CorridorOracle()


class CorridorOracle:
    """Exact distances, from snapshots."""

    exact = True

    def _distance(self, state: str) -> int:
        data = json.loads(state)
        return int(data["length"] - 1 - data["cell"])

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """1.0 if the end can be reached."""
        return float(self._distance(state) <= (math.inf if steps_left is None else steps_left))

    def distance(self, state: str) -> float:
        """Steps to the end."""
        return float(self._distance(state))

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """Right."""
        return ("right",) if self._distance(state) else ()
