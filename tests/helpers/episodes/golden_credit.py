"""Cases of ``../shared/conformance/credit``: as groups, and with their parameters as our schemes."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from helpers.shared_data import shared_file

from creditflow import credit
from creditflow.wrappers.canonical.similarity import rewardflow_alfworld_state
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn


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
    """Our scheme with the parameters of a golden case."""
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


def step_weight(case):
    params = case["params"]
    return params.get("step_advantage_w", params.get("alpha_action", 1.0))
