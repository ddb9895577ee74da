"""PiCA: what its options repair, and what it rejects."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.credit.annotations.values import turn_values

PLAIN = {"penalty": 0.0}


def with_success_values(trajectory, success):
    """The trajectory with f(0), …, f(T)."""
    turns = [
        replace(turn, values={"value.pica": success[t], "value.pica.next": success[t + 1]})
        for t, turn in enumerate(trajectory.turns)
    ]
    return replace(trajectory, turns=tuple(turns))


def pica(*members, **parameters):
    return credit.make("pica", **parameters).assign(group(*members))


def test_without_a_floor_one_wrong_prediction_outweighs_the_outcome():
    wrong = with_success_values(walk("s a x", "failed"), [0.5, 0.5, 0.0])
    assert pica(wrong, **PLAIN).flat_step_rewards[-1] < -9.0
    assert pica(wrong, **PLAIN, log_floor=-3.0).flat_step_rewards[-1] == pytest.approx(-3.0 - math.log(0.5))


def test_the_last_prediction_adds_reward_unless_final_is_neutral():
    sure = with_success_values(walk("s a x", "failed", name="sure"), [0.5, 0.6, 0.9])
    honest = with_success_values(walk("s b x", "failed", name="honest"), [0.5, 0.6, 0.1])
    assert np.ptp([r.sum() for r in pica(sure, honest, **PLAIN).step_rewards]) > 2.0
    neutral = [r.sum() for r in pica(sure, honest, **PLAIN, final="neutral").step_rewards]
    assert neutral == pytest.approx([-math.log(0.5)] * 2)
    by_outcome = [r.sum() for r in pica(sure, honest, **PLAIN, final="outcome", log_floor=-3.0).step_rewards]
    assert by_outcome == pytest.approx([-3.0 - math.log(0.5)] * 2)


def test_a_branch_continues_from_its_fork_turn():
    root = with_success_values(walk("s a b c g", name="root"), [0.5] * 5)
    branch = replace(with_success_values(walk("b d g", name="branch"), [0.5] * 3), parent="root", fork_turn=2)
    c = pica(root, branch, penalty=0.2, penalty_growth=1.0)
    assert [own.tolist() for own in np.split(c.diagnostics["penalty"], [4])] == [[0, 0, 0.2, 0.2], [0.2, 0.2]]


def searching(path, end, success, queries):
    trajectory = with_success_values(walk(path, end), success)
    turns = [replace(t, queries=("q",) if q else ()) for t, q in zip(trajectory.turns, queries, strict=True)]
    return replace(trajectory, turns=tuple(turns))


def test_the_release_rewards_searches_only_and_drops_the_answers_own_hazard():
    # hazards 0.1, 0.5 (an invalid turn), 0.2, and 0.9 at the answer
    found = searching("s a b c g", "success", np.cumprod([1.0, 0.9, 0.5, 0.8, 0.1]), [True, False, True, False])
    c = credit.make("pica", semantics="release").assign(group(found))
    np.testing.assert_allclose(c.flat_step_rewards, [0.3 * 0.35, 0, 0.3 * 0.25, 0], atol=1e-12)
    assert c.diagnostics["turn_reward"][-1] == 1.5


def test_the_release_gives_minus_one_and_no_step_rewards_without_an_answer():
    truncated = searching("s a b", "env_limit", [1.0, 0.9, 0.8], [True, True])
    c = credit.make("pica", semantics="release").assign(group(truncated))
    assert c.flat_step_rewards.tolist() == [0.0, 0.0]
    assert c.diagnostics["turn_reward"].tolist() == [0.0, -1.5]


def test_without_a_critic_the_other_members_are_the_baseline():
    good = with_success_values(walk("s a g", name="good"), [0.5, 0.9, 0.9])
    bad = with_success_values(walk("s b x", "failed", name="bad"), [0.5, 0.1, 0.1])
    alone = pica(good, bad, **PLAIN)
    c = pica(good, bad, **PLAIN, baseline="group")
    up, down = math.log(0.9 / 0.5), math.log(0.1 / 0.5)
    np.testing.assert_allclose(c.advantages[0], alone.advantages[0] - down)
    np.testing.assert_allclose(c.advantages[1], alone.advantages[1] - (1.0 + up))


# -- bad annotations ------------------------------------------------------------------------------------------------------
def test_a_missing_annotation_is_named_with_the_command_that_writes_it():
    with pytest.raises(
        CreditError,
        match=r"pica needs the annotation 'value.pica', .* trajectory 's a g', turn 0 .* creditflow annotate --with success:DIR",
    ):
        pica(walk("s a g"))  # fmt: skip


def test_an_annotation_that_is_not_a_number_is_rejected():
    with pytest.raises(CreditError, match=r"'value.pica.*trajectory 's a g', turn"):
        pica(with_success_values(walk("s a g"), [0.5, math.nan, 0.5]))


def test_an_annotation_that_is_not_a_probability_is_rejected():
    with pytest.raises(CreditError, match=r"must lie in \[0, 1\], got 1.5"):
        pica(with_success_values(walk("s a g"), [0.5, 1.5, 1.0]))


def test_predictions_of_two_models_cannot_be_mixed():
    torn = with_success_values(walk("s a g"), [0.5, 0.6, 1.0])
    turns = (torn.turns[0], replace(torn.turns[1], values={"value.pica": 0.7, "value.pica.next": 1.0}))
    with pytest.raises(CreditError, match="predictions of two models are mixed"):
        pica(replace(torn, turns=turns))


def test_turn_values_come_in_the_order_of_turns():
    g = group(
        with_success_values(walk("s a g", name="a"), [0.1, 0.2, 0.3]),
        with_success_values(walk("s b", name="b"), [0.4, 0.5]),
    )
    assert turn_values(g, "value.pica.next", scheme="pica").tolist() == [0.2, 0.3, 0.5]


def test_the_format_reward_is_added_to_the_outcome_of_well_formed_episodes():
    clean = with_success_values(walk("s a g"), [0.5, 0.5, 0.5])
    malformed = replace(clean, trajectory_id="malformed", turns=(replace(clean.turns[0], parsed=False), clean.turns[1]))
    c = pica(clean, malformed, **PLAIN, format_reward=0.1, outcome_weight=1.5)
    # the shaping is 0: every turn has the outcome, 1.5 * (1 + 0.1), or 1.5 * 1 with a malformed turn
    np.testing.assert_allclose(c.flat_advantages, [1.65, 1.65, 1.5, 1.5])
