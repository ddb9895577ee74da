"""Draw the README's picture: one failed Sokoban episode, the credit of four schemes, and the exact advantage.

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
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.sokoban.render import Painter
from creditflow.envs.sokoban.rules import WALL
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.policies import noisy_expert
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.bench.report.figures import new_figure, save_figure
from creditflow.train.rollout import play_group
from creditflow.train.viewer.scenes.sokoban import board_of_codes, group_boards
from creditflow.wrappers import Group, GroupEnv

TARGET: Final = Path(__file__).resolve().parents[2] / "assets" / "images" / "credit.png"
SCHEMES: Final = ("grpo", "gigpo", "graphgpo", "grouptd")
PANEL, SEED, NOISE, STEPS = "easy-v1:train", 15, 0.5, 8
SHOWN: Final = 2  # the episode whose turns are drawn
DEEPEST: Final = 3.0  # advantage, in units of the row's RMS, that has the darkest shade

Floats = NDArray[np.float64]


def rollouts() -> Group:
    """Eight rollouts of one level by an expert whose moves are random with probability ``NOISE``."""
    _, info = creditflow.make("sokoban", panel=PANEL).reset(seed=SEED)
    env = GroupEnv("sokoban", size=8, panel=PANEL, max_steps=STEPS)
    return play_group(env, NoisyExpert(NOISE), env.tasks.get(info["task_id"]))


def task_table(group: Group) -> FiniteMDP:
    """The level of the group as a table."""
    env: Any = creditflow.make("sokoban", panel=PANEL).unwrapped
    return sokoban_mdp(parse_level(env.tasks.get(group.task_id).content["xsb"]), STEPS)


def exact_advantages(group: Group) -> list[Floats]:
    """Q − V of every turn under the policy that played, by dynamic programming; a float64 (T,) per rollout."""
    mdp = task_table(group)
    advantage = evaluate(mdp, noisy_expert(mdp, NOISE)).advantage
    state = {key: index for index, key in enumerate(mdp.keys)}
    return [
        np.array(
            [
                advantage[STEPS - t, state[turn.state_key], mdp.actions.index(turn.action)]
                for t, turn in enumerate(trajectory.turns)
            ]
        )
        for trajectory in group.trajectories
    ]


def credits_by_name(group: Group) -> dict[str, Floats]:
    """Advantages of all turns of the group, float64 (turns,), by scheme and "exact", in units of their RMS."""
    rows = {name: np.concatenate(credit.make(name).assign(group).advantages) for name in SCHEMES}
    rows["exact"] = np.concatenate(exact_advantages(group))
    return {name: row / np.sqrt((row**2).mean()) for name, row in rows.items()}


def draw_boards(axes: Any, group: Group) -> None:
    """The board before each turn of the drawn episode."""
    boards, painter = group_boards(group), Painter(32)
    codes = np.array(
        [
            [list(map(int, line)) for line in board_of_codes(boards[turn.state_key]).split("/")]
            for turn in group.trajectories[SHOWN].turns
        ],
        np.uint8,
    )
    inside = (codes != WALL).any(axis=0)
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    codes = codes[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    frame, margin = ((3, 3), (3, 3), (0, 0)), ((0, 0), (5, 5), (0, 0))
    pictures = [
        np.pad(np.pad(painter.paint(board), frame, constant_values=90), margin, constant_values=255) for board in codes
    ]
    axes.imshow(np.concatenate(pictures, axis=1), aspect="auto", interpolation="nearest")
    axes.set_axis_off()


def draw_credit(axes: Any, group: Group) -> None:
    """Advantage of every turn under each scheme; the moves as labels, the correlation with the exact advantage at the right."""
    lengths = [len(trajectory.turns) for trajectory in group.trajectories]
    first = sum(lengths[:SHOWN])
    of_group = credits_by_name(group)
    rows = np.stack([row[first : first + lengths[SHOWN]] for row in of_group.values()])
    axes.imshow(rows, cmap="RdBu", vmin=-DEEPEST, vmax=DEEPEST, aspect="auto")
    for (i, j), value in np.ndenumerate(rows):
        text = "0" if round(value, 1) == 0.0 else f"{value:+.1f}".replace("-", "−")
        axes.text(j, i, text, ha="center", va="center", fontsize=16, color="white" if abs(value) > 1.9 else "#222222")
    last = len(rows) - 1
    axes.axhline(last - 0.5, color="white", lw=7)
    axes.set_yticks(range(len(rows)), of_group, family="monospace", fontsize=17)
    axes.get_yticklabels()[last].set_weight("bold")
    turns = group.trajectories[SHOWN].turns
    axes.set_xticks(
        range(len(turns)), [f"{number}\n{turn.action}" for number, turn in enumerate(turns, 1)], fontsize=15
    )
    for i, row in enumerate(of_group.values()):
        text = "" if i == last else f"{float((row * of_group['exact']).mean()):.2f}"
        axes.text(len(turns) - 0.3, i, text, ha="left", va="center", fontsize=16)
    axes.text(len(turns) - 0.3, -0.75, "r", ha="left", va="center", fontsize=16, style="italic")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw(group: Group, path: Path) -> None:
    """Draw the picture and write it."""
    figure = new_figure(8.6, 6.0)
    grid = figure.add_gridspec(2, 1, height_ratios=[1.0, 5.0])
    top = figure.add_subplot(grid[0])
    top.set_title("A failed episode: advantage of each turn, blue > 0, red < 0", fontsize=17, loc="left")
    draw_boards(top, group)
    draw_credit(figure.add_subplot(grid[1]), group)
    save_figure(figure, path)


if __name__ == "__main__":
    draw(rollouts(), TARGET)
