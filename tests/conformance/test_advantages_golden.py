"""Advantage estimators against the released code that computed the golden vectors: GAE and whitening, GRPO, IGPO."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.shared_data import shared_file

from creditflow import credit
from creditflow.wrappers.trajectory import Group, Tokens, Trajectory, Turn

DATA = json.loads(shared_file("conformance/search_credit/advantages.json").read_text())
ATOL = DATA["tolerance"]


def cases(kind):
    found = [pytest.param(case, id=case["id"]) for case in DATA["cases"] if case["kind"] == kind]
    assert found
    return found


def arrays(case, *names):
    return [np.array(case["input"][name], np.float64) for name in names]


@pytest.mark.parametrize("case", cases("token_gae"))
def test_gae_and_whitening_match_the_released_code(case):
    rewards, values, mask = arrays(case, "rewards", "values", "response_mask")
    got = credit.gae(rewards, values, discount=case["input"]["gamma"], gae_lambda=case["input"]["lambda"])
    np.testing.assert_allclose(got + values, case["expected"]["returns"], rtol=0, atol=ATOL)
    whitened = credit.whiten(got, mask.astype(bool), eps=1e-8)
    np.testing.assert_allclose(whitened, case["expected"]["advantages_whitened"], rtol=0, atol=ATOL)


def segments(row, mask):
    """Positions of the step rewards, and of the outcome: the last token in the mask."""
    last = int(np.flatnonzero(mask)[-1])
    return [int(t) for t in np.flatnonzero(row) if t < last], last


def groups_of(case):
    """One trajectory per row: a turn ends where a reward is; the gain of a turn is its step reward."""
    rewards, mask = arrays(case, "rewards", "response_mask")
    made = []
    for name in dict.fromkeys(case["input"]["group"]):
        members = []
        for i in [i for i, g in enumerate(case["input"]["group"]) if g == name]:
            steps, last = segments(rewards[i], mask[i])
            ends = [*steps, last]
            level = np.concatenate([[0.0], np.cumsum(rewards[i][steps]), [0.0]])
            turns = tuple(
                Turn(
                    f"{t}", "a", f"{t + 1}", reward=float(rewards[i][last]) if t == len(steps) else 0.0,
                    values={"logp.answer.mean": float(level[t]), "logp.answer.mean.next": float(level[t + 1])},
                )
                for t in range(len(ends))
            )  # fmt: skip
            n = last + 1
            tokens = Tokens(
                np.zeros(n, np.int32), np.ones(n, np.bool_), np.zeros(n, np.float32),
                np.array([0, *(end + 1 for end in ends)], np.int32),
            )  # fmt: skip
            members.append(Trajectory(str(i), name, name, turns, False, 0.0, "failed", str(len(ends)), tokens=tokens))
        made.append(Group(tuple(members)))
    return made


def per_token(groups, credits_, shape):
    """Broadcast advantages of turns to their tokens, rows in their original order."""
    out = np.zeros(shape)
    for group, scored in zip(groups, credits_, strict=True):
        for trajectory, advantages in zip(group.trajectories, scored.advantages, strict=True):
            row = np.repeat(advantages, np.diff(trajectory.tokens.turn_offsets))
            out[int(trajectory.trajectory_id), : len(row)] = row
    return out


@pytest.mark.parametrize("case", cases("pica_turn_grpo"))
def test_igpo_matches_the_turn_level_branch_of_the_released_code(case):
    groups = groups_of(case)
    scheme = credit.make(
        "igpo",
        semantics="release",
        gain="logarithm",
        discount=case["input"]["gamma"],
        normalization=case["input"]["mode"],
    )
    expected = np.array(case["expected"])
    got = per_token(groups, scheme.assign_batch(groups), expected.shape)
    np.testing.assert_allclose(got, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize("case", cases("searchr1_grpo"))
def test_grpo_over_summed_rewards_matches_the_released_code(case):
    rewards, mask = arrays(case, "rewards", "response_mask")
    labels = case["input"]["group"]
    scores = rewards.sum(axis=1)
    numbers = np.array([list(dict.fromkeys(labels)).index(label) for label in labels], np.int32)
    got = credit.normalize(scores, numbers, len(set(labels)), std_eps=case["input"]["epsilon"])
    np.testing.assert_allclose(got[:, None] * mask, case["expected"], rtol=0, atol=ATOL)
