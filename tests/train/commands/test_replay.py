"""``audit --replay``: the estimate agrees with exact advantages, the file does not depend on how it was written, wrong calls are named."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.worlds.tabulated import noisy_expert

import creditflow
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.train.bench.controls import ExactEvaluator
from creditflow.train.bench.exact.tasks import sokoban_mdp
from creditflow.train.cli import main
from creditflow.train.rollout.forks import half_widths
from creditflow.wrappers.trajectory import Group, read_groups

pytest.importorskip("scipy")

NOISE, K, STEPS = 0.5, 16, {"sokoban": 12, "webshop": 3}
TASKS = {"sokoban": "2", "webshop": "6"}
PANELS = {"sokoban": "small-v1:train", "webshop": "standard-v1:train"}


def recorded(folder: Path, env: str, *more: str) -> Path:
    path = folder / "log.jsonl"
    command = [
        "rollout",
        "--env",
        env,
        "--agent",
        f"noisy:{NOISE}",
        "--panel",
        PANELS[env],
        "--max-turns",
        str(STEPS[env]),
    ]
    assert main([*command, "--limit", TASKS[env], "--group-size", "4", "--out", str(path), *more]) == 0
    return path


def exact_in_sokoban(group: Group) -> np.ndarray[Any, Any]:
    mdp = sokoban_mdp(parse_level(str(group.task["xsb"])), STEPS["sokoban"])
    evaluator = ExactEvaluator(mdp, noisy_expert(mdp, NOISE))
    at = evaluator.index_turns(group)
    return evaluator.advantage[at.left, at.state, at.action]


def exact_in_webshop(group: Group) -> np.ndarray[Any, Any]:
    """A^π by recursion over snapshots, with the probabilities of ``NoisyExpert`` written out."""
    env: Any = creditflow.make("webshop", max_steps=STEPS["webshop"]).unwrapped
    env.reset(options={"task": dict(group.task)})
    snapshots: dict[tuple[str, int], str] = {}

    def stepped(node: tuple[str, int], action: str) -> tuple[tuple[str, int], float | None]:
        env.set_state(snapshots[node])
        _, _, terminated, truncated, info = env.step(env.action_from_text(action))
        after = (info["state_key"], node[1] + 1)
        snapshots.setdefault(after, env.get_state())
        return after, info["score"] if terminated or truncated else None

    def action_value(node: tuple[str, int], action: str) -> float:
        after, score = stepped(node, action)
        return value(after) if score is None else score

    @cache
    def value(node: tuple[str, int]) -> float:
        _, info = env.set_state(snapshots[node])
        admissible, best = info["admissible_actions"], env.oracle.optimal_actions(snapshots[node])
        weight = dict.fromkeys(admissible, 0.0)
        for action in admissible:
            weight[action] += NOISE / len(admissible)
        for action in best or admissible:
            weight[action] = weight.get(action, 0.0) + (1.0 - NOISE) / len(best or admissible)
        return sum(p * action_value(node, action) for action, p in weight.items() if p)

    advantages = []
    start = env.get_state()
    for member in group.trajectories:
        _, info = env.set_state(start)
        node = (info["state_key"], 0)
        snapshots[node] = start
        for turn in member.turns:
            assert turn.state_key == node[0]
            advantages.append(action_value(node, turn.action) - value(node))
            node, _ = stepped(node, turn.action)
    return np.array(advantages)


@pytest.mark.parametrize(("env", "exact"), [("sokoban", exact_in_sokoban), ("webshop", exact_in_webshop)])
def test_the_replayed_advantage_agrees_with_the_exact_one_within_its_interval(
    env: str, exact: Any, tmp_path: Path
) -> None:
    out = tmp_path / "replayed.jsonl"
    assert main(["audit", str(recorded(tmp_path, env)), "--replay", str(K), "--out", str(out)]) == 0
    truth, estimate, error = [], [], []
    for group in read_groups(out):
        truth.append(exact(group))
        estimate += [turn.values["fork.q"] - turn.values["fork.value"] for turn in group.turns]
        error += [turn.values["fork.error"] for turn in group.turns]
    gap, half = np.array(estimate) - np.concatenate(truth), half_widths(error, K)
    assert len(gap) > 50
    assert np.abs(np.concatenate(truth)).max() > 0.1
    assert np.mean(np.abs(gap) <= half) >= 0.9  # over 40 seeds 97 % and 99 %, and no seed below 91 %
    assert 0.7 < np.sum(gap**2) / np.sum(np.square(error)) < 1.4  # 1 for errors of the right size
    assert abs(gap.mean()) < 4.0 * np.sqrt(np.mean(np.array(error) ** 2) / len(gap))


def test_workers_and_order_do_not_change_the_file_and_its_audit_needs_no_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorded(tmp_path, "sokoban")
    whole, workers, resumed = (tmp_path / f"{name}.jsonl" for name in ("whole", "workers", "resumed"))
    assert main(["audit", str(log), "--replay", "3", "--out", str(whole), "--json"]) == 0
    captured = capsys.readouterr()
    assert "3 continuations of noisy:0.5 from before each" in captured.err
    first = json.loads(captured.out)["replay"]
    assert main(["audit", str(log), "--replay", "3", "--out", str(workers), "--workers", "2"]) == 0
    lines = whole.read_text().splitlines(keepends=True)
    resumed.with_name("resumed.jsonl.partial").write_text("".join(lines[:4]) + lines[4][:50])
    assert main(["audit", str(log), "--replay", "3", "--out", str(resumed), "--resume"]) == 0
    assert whole.read_bytes() == workers.read_bytes() == resumed.read_bytes()
    capsys.readouterr()
    assert main(["audit", str(whole), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replay"] == first
    assert first["continuations"] == 3
    assert first["turns"] == sum(len(json.loads(line)["turns"]) for line in lines)
    assert first["episodes"] == 3 * first["turns"]
    assert first["measurable"]["mean"] == 0.0  # K = 3 cannot show an effect


def test_another_policy_is_named_and_invalid_actions_cost_what_they_cost_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorded(tmp_path, "sokoban", "--invalid-actions", "terminate")
    assert main(["audit", str(log), "--replay", "2", "--agent", "random", "--out", str(tmp_path / "x.jsonl")]) == 0
    assert "the log was played by noisy:0.5: the advantages are those of random" in capsys.readouterr().err
    [group, *_] = read_groups(tmp_path / "x.jsonl")
    about = json.loads(group.trajectories[0].provenance["fork.p"])["parameters"]
    assert (about["invalid_actions"], about["agent"]) == ("terminate", "random")


LAKE = ["--env", "FrozenLake-v1", "--env-set", "success=positive_reward", "--max-turns", "12"]


def lake(folder: Path) -> Path:
    path = folder / "lake.jsonl"
    assert main(["rollout", *LAKE, "--agent", "random", "--limit", "3", "--group-size", "4", "--out", str(path)]) == 0
    return path


def test_an_environment_of_others_is_replayed_and_its_values_agree_with_exact_ones(tmp_path: Path) -> None:
    """V by recursion over the transition table; slippery ice makes Q that of the state that was reached."""
    out = tmp_path / "replayed.jsonl"
    assert main(["audit", str(lake(tmp_path)), "--replay", "32", "--out", str(out)]) == 0
    table: Any = gym.make("FrozenLake-v1").unwrapped

    @cache
    def value(state: int, left: int) -> float:
        if not left:
            return 0.0
        ways = [way for action in range(4) for way in table.P[state][action]]
        return float(sum(p * (reward if over else value(after, left - 1)) for p, after, reward, over in ways) / 4.0)

    gaps, spread = [], []
    for group in read_groups(out):
        for member in group.trajectories:
            for t, turn in enumerate(member.turns):
                exact = value(int(turn.state_key.removeprefix("int:")), 12 - t)
                gaps.append(turn.values["fork.value"] - exact)
                spread.append(exact * (1.0 - exact) / 32)
    assert len(gaps) > 40
    assert abs(np.sum(gaps)) < 4.0 * np.sqrt(np.sum(spread))
    assert np.mean(np.square(gaps)) < 2.0 * np.mean(spread)


@pytest.mark.usefixtures("forgotten")
def test_an_environment_that_does_not_repeat_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "drift.py"
    code.write_text(
        "import gymnasium as gym\n"
        "class Drift(gym.Env):\n"
        "    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Discrete(10**6)\n"
        "    count = 0\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        Drift.count += 1\n"  # what the whole process has done, and not what follows from the seed
        "        return Drift.count, 0.0, False, False, {}\n"
    )
    log = tmp_path / "log.jsonl"
    place = ["--env", f"{code}:Drift", "--env-set", "success=terminated", "--max-turns", "4"]
    assert main(["rollout", *place, "--agent", "random", "--limit", "1", "--group-size", "2", "--out", str(log)]) == 0
    assert main(["audit", str(log), *place[:2], "--replay", "4", "--out", str(tmp_path / "x.jsonl")]) != 0
    assert "its replay is in" in capsys.readouterr().err


def test_the_log_that_is_replayed_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = recorded(tmp_path, "sokoban")
    before = log.read_bytes()
    for more in ([], ["--force"], ["--resume"]):
        assert main(["audit", str(log), "--replay", "2", "--out", str(log), *more]) == 2
        assert str(log) in capsys.readouterr().err
        assert log.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_alternatives_change_no_other_number_and_agree_with_exact_values(tmp_path: Path) -> None:
    log, plain, out = recorded(tmp_path, "sokoban", "--limit", "1"), tmp_path / "plain.jsonl", tmp_path / "out.jsonl"
    assert main(["audit", str(log), "--replay", "8", "--out", str(plain)]) == 0
    assert main(["audit", str(log), "--replay", "8", "--alternatives", "--out", str(out)]) == 0
    gaps = []
    for bare, group in zip(read_groups(plain), read_groups(out), strict=True):
        mdp = sokoban_mdp(parse_level(str(group.task["xsb"])), STEPS["sokoban"])
        evaluator = ExactEvaluator(mdp, noisy_expert(mdp, NOISE))
        at, q = evaluator.index_turns(group), evaluator.exact.action_value
        turns = [(one, two) for a, b in zip(bare.trajectories, group.trajectories, strict=True) for one, two in zip(a.turns, b.turns, strict=True)]  # fmt: skip
        for number, (one, two) in enumerate(turns):
            assert one.values.items() <= two.values.items()
            different = [q[at.left[number], at.state[number], a] for a in range(4) if a != at.action[number]]
            gaps.append((two.values["fork.mean"] - np.mean(different), two.values["fork.best"] - max(different)))
    mean_gap, best_gap = np.mean(gaps, axis=0)
    assert len(gaps) > 20
    assert abs(mean_gap) < 0.05
    assert -0.12 < best_gap < 0.04  # where a half chooses a worse one, its value is lower, never higher


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--agent", "random"], "--agent has no effect without --replay"),
        (["--env", "sokoban"], "--env has no effect without --replay"),
        (["--alternatives"], "--alternatives has no effect without --replay"),
        (["--workers", "2"], "--workers has no effect without --replay"),
        (["--temperature", "0.5"], "--temperature has no effect without --replay"),
        (["--replay", "2"], "--out OUT.jsonl"),
        (["--replay", "1", "--out", "{}/x"], "at least two"),
        (["--replay", "2", "--out", "{}/x", "--agent", "noizy"], "noisy"),
        (["--replay", "2", "--out", "{}/x", "--temperature", "0.5"], "language models"),
        (["--replay", "2", "--out", "{}/x", "--env", "webshop"], "the log was recorded in"),
        (["--replay", "2", "--out", "{}/x", "--max-turns", "40"], "recorded with max_steps=12"),
    ],
)
def test_a_call_that_cannot_be_right_is_refused_before_anything_is_written(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorded(tmp_path, "sokoban")
    assert main(["audit", str(log), *(option.replace("{}", str(tmp_path)) for option in options)]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("run", "[]", "must be an object"),
        ("run", "{", "the identity of the run"),
        ("run", "", "name it with --env"),
        ("turn", "left", "its replay is in"),
    ],
)
def test_a_damaged_log_is_named(
    field: str, value: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = recorded(tmp_path, "sokoban")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        if field == "run":
            row["provenance"] = {"run": value} if value else {}
        else:
            row["turns"][0]["action"] = value if row["turns"][0]["action"] != value else "right"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["audit", str(log), "--replay", "2", "--out", str(tmp_path / "x.jsonl")]) in (2, 3)
    assert message in capsys.readouterr().err
