"""MT-GRPO on examples worked out by hand."""

from __future__ import annotations

from helpers.episodes.builders import group, walk
from helpers.episodes.worked import HALF, ONE_OF_THREE, PAID, RACE, flat, near

from creditflow import credit


def test_mt_grpo_is_the_released_numbers_for_two_turns() -> None:
    """Outcomes 1, 0, 0 and rewards of the first turn 0, 2, 0, the last of a rollout without a second turn."""
    played = group(
        walk("s a b", "failed", rewards=[0.0, 1.0]),
        walk("s a b", "failed", rewards=[2.0, 0.0], name="b"),
        walk("s a b", "failed", rewards=[0.0, 0.0], name="c"),
    )
    high, low = ONE_OF_THREE[0], ONE_OF_THREE[1]
    near(flat("mt_grpo", played), [high + low, high, low + high, low, low + low, low])
    near(flat("mt_grpo", played, turn_weight=0.5), [high + low / 2, high, low + high / 2, low, low + low / 2, low])
    # a rollout without a second turn gets its return, normalised among returns: 1, 2, 0
    short = group(*played.trajectories[:2], walk("s a", "failed", rewards=[0.0], name="c"))
    near(flat("mt_grpo", short)[-1:], [-1.0])
    # eps as released: deviations 1/√3 and 2/√3
    released = credit.make("mt_grpo", semantics="release").assign(played).flat_advantages
    near(released[1:2], [(2 / 3) / (3**-0.5 + 1e-4)])


def test_mt_grpo_in_the_unbiased_form_is_turn_loo_of_weighted_rewards() -> None:
    assert flat("mt_grpo", PAID, form="unbiased") == credit.make("turn_loo").assign(PAID).flat_advantages.tolist()
    # α .5: returns to go 1.5 + 3, 1 + 3, 3 | 1.5, 1 | 0
    near(flat("mt_grpo", PAID, form="unbiased", turn_weight=0.5), [3.75, 3.0, 3.0, -0.75, -3.0, -3.0])


def test_mt_grpo_of_a_reward_at_the_end_alone_is_grpo() -> None:
    near(flat("mt_grpo", RACE), credit.make("grpo").assign(RACE).flat_advantages)
    two = group(walk("s a g"), walk("s x y", "failed"))
    near(flat("mt_grpo", two), [HALF, HALF, -HALF, -HALF])
