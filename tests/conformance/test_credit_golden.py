"""Release semantics against the released code: every golden vector, every column that schemes expose."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from shared_data import shared_file, shared_files

from creditflow import credit
from creditflow.wrappers.canonical import rewardflow_alfworld_state
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

ESTIMATORS = ("grpo", "rloo", "gigpo", "graphgpo", "rewardflow")
COLUMNS = {
    "row_score", "advantage", "step_advantage", "episode_advantage", "discounted_return", "step_return",
    "action_reward", "state_group", "degenerate",
}  # fmt: skip
shared_files("conformance/credit/*.json")


def load(estimator):
    data = json.loads(shared_file(f"conformance/credit/{estimator}.json").read_text())
    return [pytest.param(case, data["default_tolerance"], id=case["name"]) for case in data["cases"]]


def key(state):
    return state if isinstance(state, str) else json.dumps(state, separators=(",", ":"))


def states_of(steps):
    """Keys of the states before every step, and after the last."""
    if "state" in steps[0]:
        assert all(a["next_state"] == b["state"] for a, b in pairwise(steps))
        return [key(s["state"]) for s in steps] + [key(steps[-1]["next_state"])]
    # the ALFWorld manager: observation before the action, inventory after it; one constant node for every end
    return [rewardflow_alfworld_state(s["obs"], s["inventory_after_action"]) for s in steps] + ["You Won!"]


def build_group(data):
    trajectories = []
    for t in data["trajectories"]:
        steps = t["steps"]
        keys = states_of(steps)
        turns = tuple(
            Turn(a, step["action"], b, reward=step["reward"], parsed=step["valid"], effective=a != b)
            for step, a, b in zip(steps, keys, keys[1:], strict=False)
        )
        assert np.isclose(t["episode_reward"], sum(s["reward"] for s in steps))
        reason: StopReason = "success" if t["success"] else "failed" if steps[-1]["done"] else "env_limit"
        trajectories.append(
            Trajectory(
                t["traj_id"], data["group_id"], data["group_id"], turns, t["success"], float(t["success"]),
                reason, keys[-1],
            )
        )  # fmt: skip
    return Group(tuple(trajectories))


def scheme_for(estimator, params):
    """Their parameter names to ours."""
    options = {"std_eps": params["epsilon"], "invalid_penalty": params["invalid_action_penalty"]}
    if estimator in ("grpo", "rloo"):
        options["stats_over"] = {"steps": "turns", "trajectories": "first_turns"}[params["stats_over"]]
    if estimator == "grpo":
        options["outcome_scale"] = "std" if params["norm_by_std"] else "none"
    if estimator in ("gigpo", "graphgpo", "rewardflow"):
        options["key"] = "state"  # the vectors' states are their keys
    if "mode" in params:
        options["outcome_scale"] = options["step_scale"] = "std" if params["mode"] == "mean_std_norm" else "none"
    if estimator == "gigpo":
        options |= {"discount": params["gamma"], "step_weight": params["step_advantage_w"]}
    if estimator == "graphgpo":
        options |= {
            "distance_discount": params["gamma"],
            "step_weight": params["step_advantage_w"],
            "episode_weight": params["episode_advantage_w"],
            "exponent": "progress" if params["normalize_distance"] else "next",
        }
    if estimator == "rewardflow":
        options |= {
            "discount": params["gamma"],
            "action_weight": params["alpha_action"],
            "trajectory_weight": params["alpha_traj"],
            "pruning": "alfworld" if params["manager"] == "alfworld" else "self_loops",
        }
    if params.get("enable_similarity"):
        options["similarity"] = params["similarity_thresh"]
    return credit.make(estimator, semantics="release", **options)


def same_partition(ours, theirs):
    pairs = set(zip(ours, theirs, strict=True))
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def check(estimator, case, tolerance):
    groups = [build_group(g) for g in case["groups"]]
    results = scheme_for(estimator, case["params"]).assign_batch(groups)
    close = {"atol": tolerance["atol"], "rtol": tolerance["rtol"]}
    for group, c, expected in zip(groups, results, case["outputs"]["groups"], strict=True):
        flat = {
            name: np.concatenate([t[name] for t in expected["trajectories"]])
            for name in COLUMNS & set(expected["trajectories"][0])
        }
        tied = flat.get("degenerate", np.zeros(len(group.turns), bool)).astype(bool)
        # where all members of a state group score alike the exact step advantage is 0; the file holds float32 noise
        exact = np.where(tied, flat["advantage"] - flat.get("step_advantage", 0) * _weight(case), flat["advantage"])
        np.testing.assert_allclose(c.flat_advantages, exact, **close)
        if "step_advantage" in flat:
            ours = c.diagnostics["step_advantage"]
            np.testing.assert_allclose(ours[tied], 0.0, atol=1e-6)
            np.testing.assert_allclose(ours[~tied], flat["step_advantage"][~tied], **close)
        for column in ("discounted_return", "step_return", "action_reward"):
            if column in flat:
                np.testing.assert_allclose(c.flat_step_rewards, flat[column], **close)
        if "state_group" in flat and estimator == "gigpo":
            assert same_partition(c.diagnostics["state_group"].tolist(), flat["state_group"].tolist())
        if "node_value" in expected:
            values = dict(zip(c.diagnostics["node_keys"], c.diagnostics["node_value"], strict=True))
            recorded = {name: value for name, value in expected["node_value"].items() if name in values}
            assert recorded
            np.testing.assert_allclose([values[n] for n in recorded], list(recorded.values()), **close)
        if "distances" in expected:
            check_distances(c.diagnostics["graph"], c.diagnostics["distance"], expected, close)


def check_distances(graph, distance, expected, close):
    finite = np.isfinite(distance)
    known = np.where(finite, distance, (distance[finite].max() if finite.any() else 0.0) + 1.0)
    ours = {name: d for name, kind, d in zip(graph.keys, graph.kind, known, strict=True) if kind == 0}
    theirs = {name: d for name, d in expected["distances"].items() if name in ours}
    assert set(ours) <= set(expected["distances"])
    np.testing.assert_allclose([ours[name] for name in theirs], list(theirs.values()), **close)


def _weight(case):
    params = case["params"]
    return params.get("step_advantage_w", params.get("alpha_action", 1.0))


@pytest.mark.parametrize(("case", "tolerance"), load("grpo"))
def test_grpo_release_matches_the_released_code(case, tolerance):
    check("grpo", case, tolerance)


@pytest.mark.parametrize(("case", "tolerance"), load("rloo"))
def test_rloo_release_matches_the_released_code(case, tolerance):
    check("rloo", case, tolerance)


@pytest.mark.parametrize(("case", "tolerance"), load("gigpo"))
def test_gigpo_release_matches_the_released_code(case, tolerance):
    check("gigpo", case, tolerance)


@pytest.mark.parametrize(("case", "tolerance"), load("graphgpo"))
def test_graphgpo_release_matches_the_released_code(case, tolerance):
    check("graphgpo", case, tolerance)


@pytest.mark.parametrize(("case", "tolerance"), load("rewardflow"))
def test_rewardflow_release_matches_the_released_code(case, tolerance):
    check("rewardflow", case, tolerance)


@pytest.mark.parametrize(("case", "tolerance"), load("rewardflow"))
def test_rewardflow_paper_semantics_matches_the_reference(case, tolerance):
    if "paper_reference" not in case:
        assert case["params"]["manager"] == "alfworld", "only the ALFWorld cases come without a paper reference"
        return
    groups = [build_group(g) for g in case["groups"]]
    results = credit.make("rewardflow", discount=case["params"]["gamma"]).assign_batch(groups)
    for c, expected in zip(results, case["paper_reference"], strict=True):
        rewards = np.concatenate([t["action_reward"] for t in expected["trajectories"]])
        np.testing.assert_allclose(c.flat_step_rewards, rewards, atol=1e-9)
        values = {name for name, v in zip(c.diagnostics["node_keys"], c.diagnostics["node_value"], strict=True) if v}
        assert values <= {name for name, v in expected["node_reward"].items() if v}


def load_filter():
    return json.loads(shared_file("conformance/credit/dynamic_sampling.json").read_text())["cases"]


@pytest.mark.parametrize("case", load_filter())
def test_filter_groups_keeps_what_the_released_filter_keeps(case):
    size = case["group_size"]
    returns = np.array(case["episode_rewards"]).reshape(case["groups"], size)
    groups = [
        Group(
            tuple(
                Trajectory(
                    f"{g * size + i}", f"g{g}", "t", (Turn("a", "x", "b", reward=float(r)),), False, 0.0, "failed", "b"
                )
                for i, r in enumerate(row)
            )
        )
        for g, row in enumerate(returns)
    ]
    kept = credit.filter_groups(groups, keep_all=case["last_try"])
    # the released loop keeps a batch unfiltered when nothing of it is left
    ids = [int(t.trajectory_id) for group in kept for t in group.trajectories]
    assert ids == case["kept_trajectories"]
