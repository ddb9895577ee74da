"""Rules that hold for every group and preset: invariance to names and order, zero credit for ties; declared properties are in ``test_check_credit``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.published_schemes import every_preset, every_scheme, make
from helpers.episodes.strategies import COSTS, DENSE, SPARSE, UNIT, WILD, groups, permuted, renamed
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import TrajectoryError
from creditflow.wrappers.trajectory import Group, Trajectory

quick = settings(max_examples=20)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)


@every_preset
@quick
@given(g=groups(rewards=DENSE, costs=COSTS), seed=st.integers(0, 99))
def test_order_of_trajectories_does_not_matter(name, semantics, g, seed):
    # the released RewardFlow takes a node's value from the first trajectory that enters it: it depends on the order
    options = {"propagation": "success_hops"} if (name, semantics) == ("rewardflow", "release") else {}
    scheme = make(name, semantics, **options)
    shuffled, order = permuted(g, seed)
    before, after = scheme.assign(g), scheme.assign(shuffled)
    for i, j in enumerate(order):
        close(after.advantages[i], before.advantages[j])
        close(after.step_rewards[i], before.step_rewards[j])


@every_preset
@quick
@given(g=groups(rewards=DENSE, costs=COSTS))
def test_names_of_states_and_actions_do_not_matter(name, semantics, g):
    scheme = make(name, semantics)
    assert scheme.assign(g).flat_advantages.tolist() == scheme.assign(renamed(g)).flat_advantages.tolist()


@every_preset
@quick
@given(g=groups(min_size=1, max_size=3, rewards=WILD, costs=COSTS))
def test_every_group_gets_one_finite_number_per_turn(name, semantics, g):
    options = {"invalid_penalty": 0.1} if hasattr(make(name, semantics), "invalid_penalty") else {}
    c = make(name, semantics, **options).assign(g)
    assert [len(a) for a in c.advantages] == [len(t.turns) for t in g.trajectories]
    assert c.outcome_advantages.shape == (len(g),)
    assert np.isfinite(c.flat_advantages).all()
    assert c.flat_loss_mask.all()


@every_preset
def test_a_group_of_trajectories_without_turns_is_scored(name, semantics):
    g = Group(tuple(Trajectory(f"t{i}", "g", "task", (), False, 0.0, "env_error", "s") for i in range(3)))
    c = make(name, semantics).assign(g)
    assert c.outcome_advantages.tolist() == [0.0] * 3
    assert c.flat_advantages.shape == (0,)


@every_scheme
@quick
@given(g=groups(rewards=DENSE))
def test_a_trajectory_without_turns_is_a_sample_of_the_outcome(name, g):
    empty = Trajectory("empty", "g", "task", (), False, 0.0, "env_error", "s0")
    together = make(name).assign(Group((*g.trajectories, empty)))
    alone = make(name).assign(g)
    assert together.advantages[-1].shape == (0,)
    close(together.flat_step_advantages, alone.flat_step_advantages)


@pytest.mark.parametrize("name", ["graphgpo", "rewardflow", "grpo", "rloo"])
@quick
@given(g=groups(rewards=SPARSE, costs=COSTS, ends=("failed", "env_limit", "format")))
def test_groups_without_success_get_exactly_zero_credit(name, g):
    assert (make(name).assign(g).flat_advantages == 0.0).all()


@every_scheme
@quick
@given(g=groups(rewards=SPARSE, min_turns=1, ends=("success",)))
def test_groups_that_all_succeeded_have_no_outcome_advantage(name, g):
    assert (make(name).assign(g).outcome_advantages == 0.0).all()


@quick
@given(g=groups(rewards=WILD))
def test_gigpo_without_its_step_part_is_grpo_exactly(g):
    gigpo, grpo = make("gigpo", step_weight=0.0).assign(g), make("grpo").assign(g)
    assert gigpo.flat_advantages.tolist() == grpo.flat_advantages.tolist()


@quick
@given(g=groups(rewards=DENSE, costs=COSTS))
def test_graphgpo_and_rewardflow_without_their_step_part_are_grpo_exactly(g):
    grpo = make("grpo").assign(g).flat_advantages.tolist()
    assert make("graphgpo", step_weight=0.0).assign(g).flat_advantages.tolist() == grpo
    outcome = make("rewardflow", action_weight=0.0, outcome="return").assign(g)
    assert outcome.flat_advantages.tolist() == grpo


@quick
@given(g=groups(min_size=2, rewards=WILD))
def test_rloo_is_grpo_without_std_times_n_over_n_minus_one(g):
    n = len(g)
    rloo = make("rloo").assign(g).flat_advantages
    grpo = make("grpo", outcome_scale="none").assign(g).flat_advantages
    np.testing.assert_array_equal(rloo, grpo * (n / (n - 1)))


@quick
@given(g=groups(rewards=DENSE))
def test_rewardflow_values_are_discounts_to_the_power_of_hops(g):
    c = make("rewardflow", discount=0.5).assign(g)
    value = c.diagnostics["node_value"]
    assert all(v == 0.0 or (0.0 < v <= 1.0 and np.log2(v) == round(np.log2(v))) for v in value.tolist())


@quick
@given(g=groups(min_size=2, costs=COSTS, min_turns=1, invalid=False))
def test_graphgpo_exponents_give_the_same_ranking(g):
    c = {e: make("graphgpo", exponent=e, distance_discount=0.5).assign(g) for e in ("next+cost", "progress", "log")}
    reference = c["next+cost"].diagnostics["step_advantage"]
    state = g.arrays.state
    for other in ("progress", "log"):
        step = c[other].diagnostics["step_advantage"]
        same = state[:, None] == state[None, :]
        difference, ours = reference[:, None] - reference[None, :], step[:, None] - step[None, :]
        assert (np.sign(difference) == np.sign(ours))[same & (np.abs(difference) > 1e-9)].all()


@pytest.mark.parametrize("name", ["gigpo", "graphgpo", "hgpo", "rewardflow"])
@quick
@given(g=groups(rewards=DENSE, costs=COSTS))
def test_text_keys_that_distinguish_the_same_states_give_the_same_credit(name, g):
    by_text = make(name, key="text").assign(g).flat_advantages
    assert by_text.tolist() == make(name, key="state").assign(g).flat_advantages.tolist()


@pytest.mark.parametrize("name", ["gigpo", "graphgpo", "rewardflow"])
def test_text_keys_merge_states_with_equal_texts(name):
    def blind(m):
        return replace(m, turns=tuple(replace(t, text_key="a room") for t in m.turns), final_text_key=m.final_state_key)

    g = group(blind(walk("s a g")), blind(walk("s b x", "failed")))
    by_state, by_text = (make(name, key=key).assign(g) for key in ("state", "text"))
    assert by_state.flat_step_advantages[1] == 0.0 != by_text.flat_step_advantages[1]


@pytest.mark.parametrize("name", ["gigpo", "graphgpo", "rewardflow"])
def test_missing_text_keys_are_an_error_that_names_recorder(name):
    with pytest.raises(TrajectoryError, match="Recorder"):
        make(name, key="text").assign(group(walk("s a g")))


@every_preset
@settings(max_examples=15)
@given(batch=st.lists(groups(rewards=DENSE), max_size=3))
def test_assign_batch_equals_assign_of_each_group(name, semantics, batch):
    options = {"propagation": "success_hops"} if (name, semantics) == ("rewardflow", "release") else {}
    scheme = make(name, semantics, **options)
    if scheme.couples_groups:
        return  # such a scheme scores a group by its batch
    together = scheme.assign_batch(batch)
    assert len(together) == len(batch)
    for c, g in zip(together, batch, strict=True):
        assert c.flat_advantages.tolist() == scheme.assign(g).flat_advantages.tolist()


@settings(max_examples=5)
@given(g=groups(rewards=DENSE, costs=UNIT))
def test_the_arrays_of_a_group_are_read_only(g):
    for array in (g.arrays.reward, g.arrays.state, g.arrays.returns, g.arrays.offsets, g.arrays.valid):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
