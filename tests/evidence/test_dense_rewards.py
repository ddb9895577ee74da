"""The study of dense rewards: its stored rows are reproduced, and its claims follow from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evidence.dense_rewards import run

import creditflow

STUDY = Path(run.__file__).parent
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (STUDY / "results.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("arm", "rate"), [("sparse", 0.5), ("oracle", 0.5), ("replay", 0.1)])
def test_a_cheap_arm_run_again_equals_the_stored_row(arm: str, rate: float) -> None:
    row = next(row for row in ROWS if (row["env"], row["arm"], row["used_rate"]) == ("Sokoban", arm, rate))
    again = run.q_learning("Sokoban", arm, rate, row["seed"])
    assert {name: round(value, 6) for name, value in again.items()} == {name: row[name] for name in again}


def test_the_pages_claims_are_those_of_the_stored_rows() -> None:
    table = run.table_of(ROWS)
    assert all(line["seeds"] == len(run.SEEDS[line["learner"]]) for line in table)
    gain = {
        (line["learner"], line["env"], line["arm"]): line["area_minus_sparse"]
        for line in table
        if line["arm"] != "sparse"
    }
    points = {
        arm: [round(100 * gain["q", env, arm][0]) for env in run.ENVS]
        for arm in ("graphgpo", "grouptd", "oracle", "replay")
    }
    assert points == {
        "graphgpo": [23, 38, 14, 6], "grouptd": [19, 8, 8, 3], "oracle": [26, 72, 45, 26], "replay": [24, 64, 52, 45],
    }  # fmt: skip
    for env in run.ENVS:
        assert gain["q", env, "graphgpo"] == gain["q", env, "rewardflow"]
        assert gain["q", env, "graphgpo"][1] > 0.0  # clearly above sparse
        assert gain["q", env, "replay"][0] > gain["q", env, "graphgpo"][0] > gain["q", env, "grouptd"][0]
        assert gain["q", env, "shuffled"][0] < 0.0
        assert gain["q", env, "random"][1] < 0.0 < gain["q", env, "random"][2]
    held_out = {
        (line["learner"], line["env"], line["arm"]): line["area_held_out_minus_sparse"]
        for line in table
        if "area_held_out_minus_sparse" in line
    }
    learned = ("grouptd", "gigpo", "rewardflow", "graphgpo", "features")
    for arm in learned:
        assert gain["ppo", "Sokoban", arm][1] < 0.0 < gain["ppo", "Sokoban", arm][2]
        for learner in ("ppo", "sb3"):
            assert held_out[learner, "Sokoban", arm][1] < 0.0  # none is clearly above sparse
            assert -0.03 < gain[learner, "Sokoban", arm][0] < 0.03
    assert all(held_out["ppo", "Sokoban", arm][2] < 0.0 for arm in ("grouptd", "gigpo", "rewardflow", "graphgpo"))
    for learner in ("ppo", "sb3"):
        assert gain[learner, "Sokoban", "rewardflow-paper"][2] < -0.05
        assert gain[learner, "Sokoban", "sparse-undiscounted"][2] < -0.05
        assert gain[learner, "Sokoban", "sparse-twice"][1] > 0.04
        assert held_out[learner, "Sokoban", "features"][2] > 0.0
    assert gain["ppo", "Sokoban 8x8", "features"][1] > 0.0
    text = " ".join((STUDY.parents[2] / "assets/site/pages/how_to/dense_rewards.md").read_text("utf-8").split())
    assert "by 23 points on Sokoban, 38 on ALFWorld, 14 on WebShop and 6 on WikiSearch" in text
    assert "gained 24, 64, 52 and 45" in text


def test_the_exact_value_is_that_of_the_present_policy() -> None:
    """One push to the right solves the level and other moves change nothing: V = p + (1 − p) γ V."""
    env: Any = creditflow.make("sokoban", level="#####\n#@$.#\n#####").unwrapped
    _, info = env.reset(seed=0)
    task, key = info["task_id"], info["state_key"]
    exact = run.ExactValues(env)
    uniform = exact.of(task, run.defaultdict(dict)).of(task, key)
    assert uniform == pytest.approx(0.25 / (1 - 0.75 * run.GAMMA))
    greedy = exact.of(task, run.defaultdict(dict, {(task, key): {"right": 1.0}})).of(task, key)
    assert greedy == pytest.approx(0.925 / (1 - 0.075 * run.GAMMA))  # ε = .1: .9 + .1 / 4


@pytest.mark.parametrize("arm", ["gdcr", "pica", "sparse-twice"])
def test_arms_of_one_environment_learn(arm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "Q_TASKS", 1)
    monkeypatch.setattr(run, "Q_EPISODES", 3)
    result = run.q_learning("WikiSearch", arm, 0.5, 0)
    assert all(0.0 <= number <= 1.0 for number in result.values())


def test_an_entropy_bonus_is_chosen_at_the_chosen_rate() -> None:
    part = {"learner": "sb3", "env": "Sokoban", "arm": "sparse", "rate": None, "seed": 0, "use": "measure"}
    base = {**part, "learner": "ppo", "use": "choose"}
    rows = [
        {**base, "rate": rate, "used_rate": rate, "used_entropy": 0.01, "area": 0.5 - abs(rate - 0.01), "seed": seed}
        for rate in run.RATES["ppo"]
        for seed in run.CHOOSING_SEEDS["ppo"]
    ]
    assert run.chosen(rows, part) is None
    rows += [
        {**base, "entropy": entropy, "used_rate": 0.01, "used_entropy": entropy, "area": entropy + 0.49, "seed": seed}
        for entropy in (0.003, 0.03)
        for seed in run.CHOOSING_SEEDS["ppo"]
    ]
    assert run.chosen(rows, part) == (0.01, 0.03)
