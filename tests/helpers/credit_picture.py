"""Draw the README's picture: one episode of a group of Sokoban rollouts, the credit of four schemes, and the group's state graph.

    PYTHONPATH=src python tests/helpers/credit_picture.py

Writes ``assets/images/credit.png``. The group is the one of the README's session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import creditflow
from creditflow import credit
from creditflow.agents import NoisyExpert
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rules import WALL
from creditflow.train.bench.report.figures import new_figure, save_figure
from creditflow.train.rollout import play_group
from creditflow.train.viewer.layout import layered_layout
from creditflow.train.viewer.scenes.sokoban import board_of_codes, group_boards
from creditflow.wrappers import Group, GroupEnv, StateGraph

TARGET: Final = Path(__file__).resolve().parents[2] / "assets" / "images" / "credit.png"
SCHEMES: Final = ("grpo", "gigpo", "graphgpo", "grouptd")
SEED, NOISE, STEPS = 5, 0.7, 15
SHOWN: Final = 6  # the episode whose turns are drawn
BLUE, GREY, GREEN, RED = "#0072B2", "#b8b8b8", "#009E73", "#D55E00"


def rollouts() -> Group:
    """Eight rollouts of one level by an expert whose moves are random with probability ``NOISE``."""
    _, info = creditflow.make("sokoban").reset(seed=SEED)
    env = GroupEnv("sokoban", size=8, max_steps=STEPS)
    return play_group(env, NoisyExpert(NOISE), env.tasks.get(info["task_id"]))


def distances(group: Group) -> dict[str, float]:
    """Fewest moves to success from every state of the group, by state key."""
    env: Any = creditflow.make("sokoban", max_steps=STEPS).unwrapped
    found: dict[str, float] = {}
    for trajectory in group.trajectories:
        env.reset(options={"task_id": group.task_id})
        for turn in trajectory.turns:
            found[turn.state_key] = env.oracle.distance(env.get_state())
            env.step(turn.action)
        found[trajectory.turns[-1].next_state_key] = env.oracle.distance(env.get_state())
    return found


def draw_graph(axes: Any, group: Group, graph: StateGraph) -> None:
    """The states of all rollouts; the moves of the drawn episode in blue, with the numbers of its turns."""
    starts = np.unique([graph.source[rows[0]] for rows in turns_of(group)])
    where = layered_layout(graph, starts.astype(np.int64))
    shown = set(turns_of(group)[SHOWN].tolist())
    numbers: dict[tuple[int, int], list[str]] = {}
    for row in sorted(range(graph.source.size), key=lambda row: row in shown):
        source, target = int(graph.source[row]), int(graph.target[row])
        if source == target:
            continue
        style = {"color": BLUE, "lw": 1.8, "alpha": 1.0} if row in shown else {"color": GREY, "lw": 0.8, "alpha": 0.7}
        axes.annotate(
            "", where[target], where[source], zorder=2 if row in shown else 1,
            arrowprops={"arrowstyle": "-|>", "shrinkA": 6, "shrinkB": 6, "connectionstyle": "arc3,rad=0.12", **style},
        )  # fmt: skip
        if row in shown:
            numbers.setdefault((source, target), []).append(str(row - min(shown) + 1))
    for (source, target), texts in numbers.items():
        a, b = where[source], where[target]
        bend = np.array([b[1] - a[1], a[0] - b[0]]) * (0.2 if (target, source) in numbers else 0.06)
        box = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
        axes.text(
            *((a + b) / 2 + bend),
            ", ".join(texts),
            color=BLUE,
            fontsize=9,
            weight="bold",
            ha="center",
            va="center",
            bbox=box,
            zorder=4,
        )
    goal = graph.kind == 1
    axes.scatter(*where[~goal].T, s=42, color="white", edgecolors="#555555", zorder=3)
    axes.scatter(*where[starts].T, s=70, color=BLUE, zorder=3)
    axes.scatter(*where[goal].T, s=170, marker="*", color=GREEN, zorder=3)
    axes.margins(0.06)
    axes.set_axis_off()


def turns_of(group: Group) -> list[NDArray[np.int64]]:
    """Rows of the turns of each trajectory."""
    lengths = [len(one.turns) for one in group.trajectories]
    ends = np.cumsum(lengths)
    return [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def draw_boards(axes: Any, group: Group) -> None:
    """The board before each turn of the drawn episode."""
    boards, painter = group_boards(group), Painter(16)
    codes = np.array(
        [
            [list(map(int, line)) for line in board_of_codes(boards[turn.state_key]).split("/")]
            for turn in group.trajectories[SHOWN].turns
        ],
        np.uint8,
    )
    inside = (codes != WALL).any(axis=0)
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    codes = codes[:, rows[0] - 1 : rows[-1] + 2, columns[0] - 1 : columns[-1] + 2]
    margin = ((0, 0), (5, 5), (0, 0))
    pictures = [np.pad(painter.paint(board), margin, constant_values=255) for board in codes]
    axes.imshow(np.concatenate(pictures, axis=1), aspect="auto", interpolation="nearest")
    axes.set_axis_off()


def draw_credit(axes: Any, group: Group) -> None:
    """Advantage of every turn under each scheme; the moves and the oracle's distances as labels."""
    turns = group.trajectories[SHOWN].turns
    rows = np.stack([credit.make(name).assign(group).advantages[SHOWN] for name in SCHEMES])
    axes.imshow(rows, cmap="RdBu", vmin=-1.6, vmax=1.6, aspect="auto")
    for (i, j), value in np.ndenumerate(rows):
        axes.text(j, i, f"{value:+.2f}".replace("-", "−"), ha="center", va="center", fontsize=9,
                  color="white" if abs(value) > 1.0 else "#222222")  # fmt: skip
    far = distances(group)
    axes.set_yticks(range(len(SCHEMES)), SCHEMES, family="monospace", fontsize=11)
    labels = [
        f"{number}\n{turn.action}\n{far[turn.state_key]:.0f}→{far[turn.next_state_key]:.0f}"
        for number, turn in enumerate(turns, 1)
    ]
    axes.set_xticks(range(len(turns)), labels, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("turn, move, fewest moves to success before → after it", fontsize=10)


def draw(group: Group, path: Path) -> None:
    """Draw the picture and write it."""
    successes = sum(one.success for one in group.trajectories)
    graph = StateGraph.from_group(group)
    figure = new_figure(11.0, 4.3)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.0, 2.1], height_ratios=[1.0, 2.0])
    left = figure.add_subplot(grid[:, 0])
    left.set_title(
        f"{len(group.trajectories)} rollouts, {successes} successful:\none graph of {graph.size} states",
        fontsize=11,
    )
    draw_graph(left, group, graph)
    top = figure.add_subplot(grid[0, 1])
    top.set_title("A successful episode with detours. Advantage of each turn: blue > 0, red < 0", fontsize=11)
    draw_boards(top, group)
    draw_credit(figure.add_subplot(grid[1, 1]), group)
    save_figure(figure, path)


if __name__ == "__main__":
    draw(rollouts(), TARGET)
