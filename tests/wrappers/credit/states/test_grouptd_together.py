"""Groups that are computed together get the credit that each gets by itself, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.wrappers import credit
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.credit.states import reward_process
from creditflow.wrappers.credit.states.grouptd import VARIANTS
from creditflow.wrappers.records.group import EpisodeIndex, Group

SETTINGS = {
    **{name: dict(given) for name, given in VARIANTS.items()},
    "return": {"outcome": "return", "divide_by_success": False},
    "horizon": {"horizon": 30, **VARIANTS["grouptd_relative"]},
    "long horizon": {"horizon": 300, **VARIANTS["grouptd_relative"]},
    "penalty": {"invalid_penalty": 0.1, **VARIANTS["grouptd_base"]},
    "stationary": {"form": "stationary"},
    "none": {"prior": "none"},
}


def assert_equal(one, other):
    for name in ("outcome_advantages", "flat_step_advantages", "flat_step_rewards", "flat_loss_mask", "offsets"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.diagnostics.keys() == other.diagnostics.keys()
    for name, x in one.diagnostics.items():
        np.testing.assert_array_equal(x, other.diagnostics[name])


@pytest.mark.parametrize("name", SETTINGS)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 5), limit=st.sampled_from([1, 20, 8192]))
@settings(max_examples=15)
def test_a_batch_is_its_groups_one_by_one(name, seed, count, limit):
    rng = np.random.default_rng(seed)
    groups = [random_group(rng) for _ in range(count)]
    scheme = credit.make("grouptd", **SETTINGS[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reward_process, "_MAX_TURNS", limit)
        batch = scheme.assign_batch(groups)
    assert len(batch) == count
    for group, given_together in zip(groups, batch, strict=True):
        assert_equal(scheme.assign(group), given_together)


def branched(seed):
    """A group with a branch of its longest trajectory that shares the first turn."""
    members = random_group(np.random.default_rng(seed)).trajectories
    longest = max(members, key=lambda member: len(member.turns))
    branch = replace(
        longest, trajectory_id="branch", turns=longest.turns[1:], parent=longest.trajectory_id, fork_turn=1
    )
    return Group((*members, branch))


def test_branches_are_scored_alike_alone_and_together():
    groups = [branched(seed) for seed in range(4)]
    scheme = credit.make("grouptd", **VARIANTS["grouptd_relative"])
    for group, together in zip(groups, scheme.assign_batch(groups), strict=True):
        assert_equal(scheme.assign(group), together)


def test_joined_episodes_are_those_of_the_groups():
    plain = random_group(np.random.default_rng(0))
    groups = [plain, branched(1), plain]
    joined = EpisodeIndex.joined([group.episode_index for group in groups])
    turns = np.concatenate([np.arange(len(group.arrays.reward)) + 1000 * i for i, group in enumerate(groups)])
    expected = [1000 * i + group.episode_index.stored for i, group in enumerate(groups)]
    np.testing.assert_array_equal(turns[joined.stored], np.concatenate(expected))
    np.testing.assert_array_equal(turns[joined.stored][joined.own], turns)
    np.testing.assert_array_equal(
        np.diff(joined.offsets), np.concatenate([np.diff(group.episode_index.offsets) for group in groups])
    )
