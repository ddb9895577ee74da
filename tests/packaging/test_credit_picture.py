"""The README's picture is drawn from the group that the README's session plays, and its last row is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.credit_picture import (
    NOISE,
    PANEL,
    SCHEMES,
    SHOWN,
    STEPS,
    credits_by_name,
    draw,
    exact_advantages,
    rollouts,
)
from helpers.shared_data import ROOT

import creditflow
from creditflow.wrappers import StateGraph


def test_the_group_is_the_one_of_the_readme():
    group = rollouts()
    numbers = sum(one.success for one in group.trajectories), len(group.turns), StateGraph.from_group(group).size
    assert f"\n{numbers}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert not group.trajectories[SHOWN].success


def value(env: Any, snapshot: str, steps_left: int) -> float:
    """Success probability of the noisy expert, by trying every move of the environment itself."""
    if steps_left == 0:
        return 0.0
    return float(sum(probability * after for probability, after in outcomes(env, snapshot, steps_left).values()))


def outcomes(env: Any, snapshot: str, steps_left: int) -> dict[str, tuple[float, float]]:
    """By move: its probability, and the probability of success after it."""
    env.set_state(snapshot)
    actions, best = ("up", "down", "left", "right"), env.oracle.optimal_actions(snapshot)
    by_move = {}
    for action in actions:
        env.set_state(snapshot)
        *_, terminated, _, info = env.step(action)
        after = float(info["success"]) if terminated else value(env, env.get_state(), steps_left - 1)
        share = (action in best) / len(best) if best else 1.0 / len(actions)
        by_move[action] = (NOISE / len(actions) + (1.0 - NOISE) * share, after)
    return by_move


def test_the_exact_row_is_what_trying_every_move_gives():
    """From the fourth last turn on, where all continuations can be tried."""
    group = rollouts()
    env: Any = creditflow.make("sokoban", panel=PANEL, max_steps=STEPS).unwrapped
    trajectory, exact = group.trajectories[SHOWN], exact_advantages(group)[SHOWN]
    env.reset(options={"task_id": group.task_id})
    for t, turn in enumerate(trajectory.turns):
        snapshot = env.get_state()
        if STEPS - t <= 4:
            moves = outcomes(env, snapshot, STEPS - t)
            expected = moves[turn.action][1] - sum(p * after for p, after in moves.values())
            assert exact[t] == pytest.approx(expected, abs=1e-12)
            env.set_state(snapshot)
        env.step(turn.action)


def test_rows_have_unit_scale_and_the_caption_says_which_turn_is_worst():
    rows = credits_by_name(rollouts())
    assert list(rows) == [*SCHEMES, "exact"]
    assert all(np.sqrt((row**2).mean()) == pytest.approx(1.0) for row in rows.values())
    worst = int(np.argmin(exact_advantages(rollouts())[SHOWN]))
    assert f"above all turn {worst + 1}," in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")
    pytest.importorskip("PIL", reason="tiles need Pillow")
    draw(rollouts(), tmp_path / "credit.png")
    assert (tmp_path / "credit.png").stat().st_size > 20_000
