"""The benchmark's grid worlds as environments: text observations, snapshots, an exact oracle, seeded slips.

``creditflow.make("grid-pits")`` works once this module is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.envs.core import AgentEnv, Outcome
from creditflow.envs.errors import EpisodeError
from creditflow.envs.registration import REGISTRY
from creditflow.envs.spaces import TextSpace
from creditflow.envs.tasks import PanelRow, RowTasks, Task, content_id, sample_index
from creditflow.train.bench.exact.grid_layouts import (
    ACTIONS,
    HORIZON,
    KINDS,
    PIT,
    Cell,
    GridLayout,
    generate_layout,
    grid_mdp,
)
from creditflow.train.bench.exact.mdp import FiniteMDP

__all__ = [
    "AliasGrid",
    "GridEnv",
    "GridOracle",
    "OpenGrid",
    "PitsGrid",
    "SlipGrid",
    "grid_tasks",
    "layout_task",
    "register_grids",
]

GENERATION: Final = 1  # version of the generator; part of the task ids
FORMAT: Final = "grid/1"
EXPECTED: Final = f"expected exactly one of: {', '.join(ACTIONS)}"


def draw(layout: GridLayout, cell: Cell) -> str:
    """The grid as text with the agent as ``A``."""
    if cell == PIT:
        return "You fell into a pit."
    rows = [row.replace("S", ".") for row in layout.rows]
    rows[cell[0]] = rows[cell[0]][: cell[1]] + "A" + rows[cell[0]][cell[1] + 1 :]
    return "\n".join(rows)


def read_layout(content: Mapping[str, Any]) -> GridLayout:
    """The layout of a task's content."""
    return GridLayout(tuple(content["rows"]), tuple(content["labels"]), content["slip_percent"])


def layout_task(env: str, layout: GridLayout) -> Task:
    """The layout as a task of the environment named ``env``."""
    prefix = f"{env}{GENERATION}"
    return Task(content_id(prefix, layout.content), content_id(prefix, _canonical(layout)), layout.content)


def _turned(lines: Sequence[str]) -> list[str]:
    return ["".join(column) for column in zip(*lines[::-1], strict=True)]


def _canonical(layout: GridLayout) -> dict[str, Any]:
    """The lexicographically smallest content among the eight rotations and reflections."""
    rows, labels = list(layout.rows), list(layout.labels)
    variants = []
    for _ in range(4):
        rows, labels = _turned(rows), _turned(labels)
        variants += [(rows, labels), ([row[::-1] for row in rows], [row[::-1] for row in labels])]
    first = min(variants)
    return {"rows": first[0], "labels": first[1], "slip_percent": layout.slip_percent}


@lru_cache(maxsize=64)
def grid_tasks(kind: str, seed: int, count: int) -> RowTasks:
    """The first ``count`` tasks of a kind for a seed; the same on every machine."""
    env = f"grid-{kind}"
    rows = []
    for index in range(count):
        rng = np.random.Generator(np.random.PCG64([seed, KINDS.index(kind), index]))
        task = layout_task(env, generate_layout(kind, rng))
        rows.append(PanelRow(task.task_id, "all", task.content, {"index": index}))
    distinct = {row.task_id: row for row in rows}
    return RowTasks(env, tuple(distinct.values()), lambda content: layout_task(env, read_layout(content)))


class GridOracle:
    """The exact oracle, from the layout's tables; with slips, ``distance`` is that of the most likely transitions."""

    exact = True

    def value(self, state: str, *, steps_left: int | None = None) -> float:
        """Maximum probability of reaching the goal, within ``steps_left`` turns if given."""
        layout, _, index = _table(state)
        return float(_max_success(layout, None if steps_left is None else max(steps_left, 0))[index])

    def distance(self, state: str) -> float:
        """Fewest turns to the goal; ``inf`` in a pit."""
        _, mdp, index = _table(state)
        return float(mdp.distance[index])

    def optimal_actions(self, state: str) -> tuple[str, ...]:
        """First actions of shortest paths to the goal."""
        _, mdp, index = _table(state)
        if index >= mdp.size:
            return ()
        return tuple(sorted(text for text, good in zip(ACTIONS, mdp.optimal[index], strict=True) if good))


def _table(snapshot: str) -> tuple[GridLayout, FiniteMDP, int]:
    """A snapshot's layout, its tables, and the index of its state."""
    layout, cell = _read(snapshot)[:2]
    mdp = grid_mdp(layout, HORIZON)
    return layout, mdp, mdp.index[layout.keys(cell)[0]]


@lru_cache(maxsize=4096)
def _max_success(layout: GridLayout, steps: int | None) -> NDArray[np.float64]:
    """Maximum probability of success from every state, within ``steps`` turns (None: without limit)."""
    mdp = grid_mdp(layout, HORIZON)
    value = np.concatenate([np.zeros(mdp.size), mdp.terminal_score])
    for _ in range(10_000 if steps is None else steps):
        best = (mdp.transition_probs * value[mdp.next_states]).sum(axis=2).max(axis=1)
        if (np.abs(best - value[: mdp.size]) < 1e-15).all():
            break
        value[: mdp.size] = best
    capped: NDArray[np.float64] = np.minimum(value, 1.0)
    return capped


class GridEnv(AgentEnv[str, str, int]):
    """Grid world in which the agent walks to the goal; see ``grid_layouts`` for the kinds.

    Args:
        seed: seed of the tasks.
        count: number of tasks.
        max_steps: turn limit H.
    """

    kind: ClassVar[str]

    def __init__(self, *, seed: int = 0, count: int = 50, max_steps: int = HORIZON) -> None:
        super().__init__(tasks=grid_tasks(self.kind, seed, count), max_steps=max_steps)
        self.observation_space = TextSpace()
        self.action_space = TextSpace(ACTIONS)
        self._layout: GridLayout | None = None
        self._cell: Cell = PIT

    @property
    def layout(self) -> GridLayout:
        """The layout of the current task.

        Raises:
            EpisodeError: before the first ``reset``.
        """
        if self._layout is None:
            raise EpisodeError("there is no state yet: call reset() first")
        return self._layout

    def _start(self, task: Task) -> None:
        self._layout = read_layout(dict(task.content))
        self._cell = self._layout.start

    def _parse(self, action: Any) -> tuple[int | None, str]:
        if isinstance(action, str) and action in ACTIONS:
            return ACTIONS.index(action), ""
        return (
            None,
            f"not an action: {ascii(action if isinstance(action, str) else type(action).__name__)[:40]}; {EXPECTED}",
        )

    def _rejection_reason(self, _action: int) -> str:
        return ""  # every action is admissible, a bump too

    def _apply(self, action: int) -> Outcome:
        if self.layout.slip_percent and sample_index(self.np_random, 100) < self.layout.slip_percent:
            action = sample_index(self.np_random, len(ACTIONS))
        before, self._cell = self._cell, self.layout.move(self._cell, action)
        done = self._progress()[0]
        return Outcome(float(done), done, self._cell != before)

    def _invalid_action_reward(self) -> float:
        return 0.0

    def _observe(self) -> str:
        return draw(self.layout, self._cell)

    def _keys(self) -> tuple[str, str]:
        return self.layout.keys(self._cell)

    def _admissible(self) -> tuple[str, ...]:
        return ACTIONS

    def _progress(self) -> tuple[bool, float]:
        done = self.layout.at(self._cell) == "G"
        return done, float(done)

    def get_state(self) -> str:
        """The snapshot: layout, cell, step count and, with slips, the generator's state."""
        snapshot: dict[str, Any] = {
            "format": FORMAT,
            "layout": self.layout.content,
            "cell": list(self._cell),
            "steps": self.elapsed_steps,
        }
        if self.layout.slip_percent:
            state = self.np_random.bit_generator.state
            snapshot["generator"] = [state["state"]["state"], state["state"]["inc"]]
        return json.dumps(snapshot, separators=(",", ":"), sort_keys=True)

    def set_state(self, snapshot: str) -> tuple[str, dict[str, Any]]:
        """Restore a snapshot and return observation and info, as ``reset`` does."""
        layout, cell, steps, generator = _read(snapshot)
        self._begin(layout_task(self.env_name, layout), elapsed=steps)
        self._cell = cell
        self._over = self._progress()[0] or steps >= self.max_steps
        if generator is not None:
            bits = np.random.PCG64()
            bits.state = {
                "bit_generator": "PCG64",
                "state": {"state": generator[0], "inc": generator[1]},
                "has_uint32": 0,
                "uinteger": 0,
            }
            self.np_random = np.random.Generator(bits)
        return self._observe(), self._info(True, True, False, "")

    @property
    def oracle(self) -> GridOracle:
        """Exact distances, values and optimal actions; takes snapshots."""
        return GridOracle()


def _read(text: str) -> tuple[GridLayout, Cell, int, tuple[int, int] | None]:
    """Layout, cell, step count and generator of a snapshot."""
    data = json.loads(text)
    row, column = data["cell"]
    return read_layout(data["layout"]), (row, column), data["steps"], data.get("generator")


class OpenGrid(GridEnv):
    """Walls only."""

    env_name: ClassVar[str] = "grid-open"
    kind: ClassVar[str] = "open"


class PitsGrid(GridEnv):
    """Walls and absorbing pits."""

    env_name: ClassVar[str] = "grid-pits"
    kind: ClassVar[str] = "pits"


class AliasGrid(GridEnv):
    """Pits, and pairs of cells with one text key."""

    env_name: ClassVar[str] = "grid-alias"
    kind: ClassVar[str] = "alias"


class SlipGrid(GridEnv):
    """Pits, and one action in ten is replaced by a random one."""

    env_name: ClassVar[str] = "grid-slip"
    kind: ClassVar[str] = "slip"


def register_grids() -> None:
    """Register the grids with ``creditflow.make`` and Gymnasium, once."""
    for grid in (OpenGrid, PitsGrid, AliasGrid, SlipGrid):
        gym_id = f"creditflow/{grid.__name__}-v0"
        if grid.env_name not in REGISTRY.entries():
            REGISTRY.add(grid.env_name, gym_id)
        if gym_id not in gym.registry:
            gym.register(
                id=gym_id,
                entry_point=f"{grid.__module__}:{grid.__name__}",
                nondeterministic=grid.kind == "slip",
                order_enforce=False,
                disable_env_checker=True,
            )


register_grids()
