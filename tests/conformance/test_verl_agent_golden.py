"""The verl-agent adapter on the released code's vectors, laid out as the batch of a verl-agent fork: one row per step."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.episodes.golden_credit import build_group, load, scheme_for, states_of, step_weight

from creditflow.train.adapters.verl_agent import compute_advantages, compute_gigpo_outcome_advantage

ESTIMATORS = ("grpo", "rloo", "gigpo", "graphgpo", "rewardflow")
ALL = [pytest.param(name, *one.values, id=one.id) for name in ESTIMATORS for one in load(name)]
WIDTH = 5  # response tokens


def objects(values):
    out = np.empty(len(values), object)
    out[:] = values
    return out


def anchors_of(steps):
    """The states as a fork of verl-agent stores them: texts as they are, grids as tuples."""
    if "state" not in steps[0]:
        return states_of(steps)
    states = [*(step["state"] for step in steps), steps[-1]["next_state"]]
    return [state if isinstance(state, str) else tuple(state) for state in states]


def batch_of(case, *, heads=None):
    """The case as a fork's batch, and the file's columns row by row.

    Args:
        case: a case of a golden file.
        heads: None leaves rows in file order; a generator puts one row of every trajectory first, in file order, and
            then all others in any order. (Released code depends on the order in which it meets trajectories.)
    """
    rows, expected = [], []
    rng = np.random.default_rng(len(case["name"]))
    for group, outputs in zip(case["groups"], case["outputs"]["groups"], strict=True):
        for played, columns in zip(group["trajectories"], outputs["trajectories"], strict=True):
            states = anchors_of(played["steps"])
            lists = {name: values for name, values in columns.items() if isinstance(values, list)}
            for t, step in enumerate(played["steps"]):
                rows.append(
                    {
                        "uid": f"{case['name']}/{group['group_id']}", "traj_uid": f"{case['name']}/{played['traj_id']}",
                        "anchor_obs": states[t], "next_obs": states[t + 1], "rewards": step["reward"], "step": t,
                        "is_action_valid": step["valid"], "text_actions": step["action"], "active_masks": True,
                    }
                )  # fmt: skip
                expected.append({name: values[t] for name, values in lists.items()})
    order = np.arange(len(rows))
    if heads is not None:
        first = {}
        for i in heads.permutation(len(rows)).tolist():
            first[rows[i]["traj_uid"]] = i
        front = [first[name] for name in dict.fromkeys(row["traj_uid"] for row in rows)]
        order = np.array([*front, *heads.permutation([i for i in range(len(rows)) if i not in set(front)]).astype(int)])
    rows, expected = [rows[i] for i in order], [expected[i] for i in order]
    mask = np.arange(WIDTH) < rng.integers(1, WIDTH + 1, size=(len(rows), 1))
    rewards = np.zeros(mask.shape)
    rewards[np.arange(len(rows)), mask.sum(1) - 1] = [row["row_score"] for row in expected]
    data = SimpleNamespace(
        batch={"token_level_rewards": rewards.astype(np.float32), "response_mask": mask.astype(np.int64)},
        non_tensor_batch={name: objects([row[name] for row in rows]) for name in rows[0]},
    )
    named = ("advantage", "step_advantage", "step_score", "degenerate")
    return data, {name: np.array([row[name] for row in expected]) for name in named if name in expected[0]}


def per_row(advantages, mask):
    """The number on each row's response tokens; the others are zero."""
    numbers = advantages[:, 0]
    np.testing.assert_array_equal(advantages, numbers[:, None] * mask)
    return numbers


def compare(case, got, columns, tolerance):
    # where all members of a state group score alike the exact step advantage is 0; the file holds float32 noise
    tied = columns.get("degenerate", np.zeros(len(got), bool)).astype(bool)
    noise = np.where(tied, columns.get("step_advantage", 0.0) * step_weight(case), 0.0)
    np.testing.assert_allclose(got, columns["advantage"] - noise, atol=tolerance["atol"], rtol=tolerance["rtol"])


@pytest.mark.parametrize(("estimator", "case", "tolerance"), ALL)
def test_a_forks_batch_in_its_original_order_gets_the_released_numbers(estimator, case, tolerance):
    data, columns = batch_of(case)
    del data.non_tensor_batch["step"]
    advantages, returns = compute_advantages(data, scheme=scheme_for(estimator, case["params"]))
    np.testing.assert_array_equal(advantages, returns)
    compare(case, per_row(advantages, data.batch["response_mask"]), columns, tolerance)


@pytest.mark.parametrize(("estimator", "case", "tolerance"), ALL)
def test_shuffled_rows_that_name_their_step_get_the_same_numbers(estimator, case, tolerance):
    data, columns = batch_of(case, heads=np.random.default_rng(7))
    advantages, _ = compute_advantages(data, scheme=scheme_for(estimator, case["params"]))
    compare(case, per_row(advantages, data.batch["response_mask"]), columns, tolerance)


@pytest.mark.parametrize(("estimator", "case", "tolerance"), ALL)
def test_any_order_of_rows_gives_what_the_scheme_gives_for_that_order_of_trajectories(estimator, case, tolerance):
    data, _ = batch_of(case)
    order = np.random.default_rng(11).permutation(len(data.non_tensor_batch["uid"]))
    columns = {name: column[order] for name, column in data.non_tensor_batch.items()}
    scheme = scheme_for(estimator, case["params"])
    batch = {name: tensor[order] for name, tensor in data.batch.items()}
    got, _ = compute_advantages(SimpleNamespace(batch=batch, non_tensor_batch=columns), scheme=scheme)
    groups = {}
    for group in case["groups"]:
        met = dict.fromkeys(columns["traj_uid"])
        by_id = {f"{case['name']}/{t['traj_id']}": t for t in group["trajectories"]}
        members = [by_id[name] for name in met if name in by_id]
        groups[f"{case['name']}/{group['group_id']}"] = build_group({**group, "trajectories": members})
    named = list(dict.fromkeys(columns["uid"]))
    wanted = {}
    for name, one in zip(named, scheme.assign_batch([groups[name] for name in named]), strict=True):
        for member, advantages in zip(groups[name].trajectories, one.advantages, strict=True):
            for t, number in enumerate(advantages):
                wanted[f"{case['name']}/{member.trajectory_id}", t] = number
    rows = [wanted[key] for key in zip(columns["traj_uid"], columns["step"], strict=True)]
    np.testing.assert_allclose(got[:, 0], rows, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("case", "tolerance"), load("gigpo"))
def test_the_forks_own_signature_of_gigpo_gets_the_released_numbers(case, tolerance):
    data, columns = batch_of(case)
    params = case["params"]
    advantages, _ = compute_gigpo_outcome_advantage(
        data.batch["token_level_rewards"],
        columns["step_score"],
        data.batch["response_mask"],
        data.non_tensor_batch["anchor_obs"],
        data.non_tensor_batch["uid"],
        data.non_tensor_batch["traj_uid"],
        epsilon=params["epsilon"],
        step_advantage_w=params["step_advantage_w"],
        mode=params["mode"],
        enable_similarity=params["enable_similarity"],
        similarity_thresh=params["similarity_thresh"],
    )
    compare(case, per_row(advantages, data.batch["response_mask"]), columns, tolerance)


@pytest.mark.parametrize(("estimator", "case", "tolerance"), ALL)
def test_copies_of_rows_and_rows_of_finished_episodes_change_nothing(estimator, case, tolerance):
    data, columns = batch_of(case)
    rows = len(data.non_tensor_batch["uid"])
    copied = np.random.default_rng(3).integers(rows, size=7)
    more = np.concatenate([np.arange(rows), copied, copied])
    for part in (data.batch, data.non_tensor_batch):
        for name in part:
            part[name] = part[name][more]
    data.non_tensor_batch["active_masks"][-7:] = False
    data.non_tensor_batch["traj_uid"][-7:] = "finished"
    advantages, _ = compute_advantages(data, scheme=scheme_for(estimator, case["params"]))
    compare(case, advantages[:rows, 0], columns, tolerance)
    np.testing.assert_array_equal(advantages[rows:-7, 0], advantages[copied, 0])
    assert not advantages[-7:].any()
