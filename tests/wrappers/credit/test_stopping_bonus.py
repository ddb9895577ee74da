"""No bonus for extra turns, where the policy decides when to stop (verl issue 7244 has the derivation).

Rewards centred at each turn number and summed to the end subtract as many baselines as the trajectory chose to take
turns: each further turn adds minus the mean reward of that turn number. The worlds here leave one thing to choose,
whether to continue after the first turn, so that the true value of continuing is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from helpers.episodes.builders import walk
from helpers.episodes.per_turn_number import PerTurnNumber

from creditflow import credit
from creditflow.wrappers.credit.base import Scheme
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

LENGTHS = (1, 2, 4, 7)
BY_REWARDS = credit.names(given=())


def world(first: float, later: float, lengths: tuple[int, ...] = LENGTHS) -> Group:
    """One start; after the first turn all trajectories have distinct states with reward ``later`` per turn; none succeeds."""
    return Group(
        tuple(
            walk(
                ["start", *(f"{i}.{t}" for t in range(1, n)), f"{i}.end"], "failed",
                rewards=[first] + [later] * (n - 1), name=f"r{i}",
            )
            for i, n in enumerate(lengths)
        )
    )  # fmt: skip


def first_turns(scheme: Scheme, group: Group) -> list[float]:
    return [float(advantages[0]) for advantages in scheme.assign(group).advantages]


def mixed_world() -> Group:
    """One continues with negative reward, one continues without reward, one stops; none succeeds."""
    rewards_by_name = {"stay": [0.0] + [-1.0] * 4, "go": [0.0] * 5, "stop": [0.0]}
    return Group(tuple(leave(name, rewards, "failed") for name, rewards in rewards_by_name.items()))


def winning_world() -> Group:
    """One stops without success, one continues and succeeds, one continues without success."""
    return Group(
        (leave("stop", [0.0], "failed"), leave("win", [0.0] * 4 + [1.0], "success"), leave("go", [0.0] * 5, "failed"))
    )


def leave(name: str, rewards: list[float], end: StopReason) -> Trajectory:
    """From the common start, then through distinct states."""
    return walk(["start", *(f"{name}.{t + 1}" for t in range(len(rewards)))], end, rewards=rewards, name=name)


# -- what must hold of a scheme that reads rewards and success only ----------------------------------------------------
def further_turns_without_reward_get_zero_credit(scheme: Scheme) -> None:
    for first in (-1.0, 0.0, 2.0):
        found = first_turns(scheme, world(first, 0.0))
        assert found == [found[0]] * len(LENGTHS)
    _, go, stop = first_turns(scheme, mixed_world())
    assert go == pytest.approx(stop)


def further_turns_with_negative_reward_get_no_bonus(scheme: Scheme) -> None:
    found = first_turns(scheme, world(0.0, -1.0))
    assert all(longer <= shorter for shorter, longer in itertools.pairwise(found))
    stay, go, stop = first_turns(scheme, mixed_world())
    assert stay <= go <= stop + 1e-12


def failing_later_is_as_bad_as_failing_at_once(scheme: Scheme) -> None:
    stop, win, go = first_turns(scheme, winning_world())
    assert go == pytest.approx(stop)
    assert win > stop


RULES = (
    further_turns_without_reward_get_zero_credit,
    further_turns_with_negative_reward_get_no_bonus,
    failing_later_is_as_bad_as_failing_at_once,
)


Rule = Callable[[Scheme], None]
# mt_grpo subtracts a mean for each turn that a rollout takes; g2po discounts the whole outcome by the turns to the end, also a reward of the first turn; blend's baseline by time grows with
# the turns that few rollouts reach, where keys do not recur. Their cards say so.
BROKEN: list[tuple[str, Rule]] = [
    ("g2po", further_turns_without_reward_get_zero_credit),
    ("mt_grpo", further_turns_without_reward_get_zero_credit),
    ("mt_grpo", further_turns_with_negative_reward_get_no_bonus),
    *(("blend", rule) for rule in RULES),
]


@pytest.mark.parametrize(
    ("name", "rule"), [(name, rule) for name in BY_REWARDS for rule in RULES if (name, rule) not in BROKEN]
)
def test_no_scheme_over_rewards_gives_a_bonus_for_turns(name: str, rule: Rule) -> None:
    rule(credit.make(name))


@pytest.mark.parametrize(("name", "rule"), BROKEN)
def test_schemes_whose_formula_gives_a_bonus_say_so_on_their_card(name: str, rule: Rule) -> None:
    scheme = credit.make(name)
    with pytest.raises(AssertionError):
        rule(scheme)
    assert "longer" in scheme.limitations


@pytest.mark.parametrize("rule", RULES)
def test_mt_grpo_in_its_unbiased_form_gives_no_bonus(rule: Rule) -> None:
    rule(credit.make("mt_grpo", form="unbiased"))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_catches_centring_at_each_turn_number(rule: Callable[[Scheme], None]) -> None:
    with pytest.raises(AssertionError):
        rule(PerTurnNumber())


def test_centring_at_each_turn_number_hides_the_negative_rewards_of_further_turns() -> None:
    # each further turn has reward −1; the sum of baselines cancels it exactly
    assert first_turns(PerTurnNumber(), world(0.0, -1.0)) == [0.0] * len(LENGTHS)
    # and gives a bonus to turns without reward if others have negative rewards there
    assert first_turns(PerTurnNumber(), mixed_world()) == [-2.0, 2.0, 0.0]
    # and a penalty if others have positive rewards there
    assert first_turns(PerTurnNumber(), winning_world()) == [0.0, 0.5, -0.5]


@pytest.mark.parametrize("name", ["grpo", "rloo", "gigpo"])
def test_schemes_over_rewards_give_less_credit_for_further_turns_with_negative_reward(name: str) -> None:
    found = first_turns(credit.make(name), world(0.0, -1.0))
    assert all(longer < shorter for shorter, longer in itertools.pairwise(found))


def searches(name: str, found: list[str]) -> Trajectory:
    """A trajectory that retrieves one passage per turn."""
    turns = tuple(Turn(f"{t}", "search", f"{t + 1}", doc_ids=(one,)) for t, one in enumerate(found))
    return Trajectory(name, "g", "task", turns, False, 0.0, "env_limit", f"{len(found)}")


def test_stepsearch_compares_at_each_turn_number_but_sums_no_baselines() -> None:
    task: dict[str, Any] = {
        "supporting": ["gold"], "steps": [],
        "documents": {n: {"title": n, "text": n} for n in ("gold", *"abcdefg")},
    }  # fmt: skip
    scheme = credit.make("stepsearch", key_weight=0.0, step_weight=1.0)
    fresh = Group(tuple(searches(f"r{n}", list("abcdefg")[:n]) for n in LENGTHS), task)
    assert first_turns(scheme, fresh) == [0.0] * len(LENGTHS)  # turns that find nothing new get zero credit
    again = Group(tuple(searches(f"r{n}", ["a"] * n) for n in LENGTHS), task)
    found = first_turns(scheme, again)  # every repetition has reward −1
    assert all(longer < shorter for shorter, longer in itertools.pairwise(found))


def judged(group: Group, **names: list[list[float]]) -> Group:
    members = []
    for i, member in enumerate(group.trajectories):
        values = [
            {name.replace("__", "."): rows[i][t] for name, rows in names.items()} for t in range(len(member.turns))
        ]
        turns = tuple(replace(turn, values=one) for turn, one in zip(member.turns, values, strict=True))
        members.append(replace(member, turns=turns))
    return Group(tuple(members))


def test_summed_judge_scores_give_a_bonus_for_turns_as_documented() -> None:
    numbers = [[-1.0] + [0.0] * (n - 1) for n in LENGTHS]
    group = judged(world(0.0, 0.0), judge__score=numbers)
    found = first_turns(credit.make("prm"), group)
    assert all(longer > shorter for shorter, longer in itertools.pairwise(found))
    assert "favours long trajectories" in credit.describe("prm")


def test_summed_gains_give_a_bonus_for_turns_as_documented() -> None:
    lengths = (2, 3, 5)
    world_ = world(0.0, 0.0, lengths)
    before = [
        [0.0] + [-2.0] * (n - 1) for n in lengths
    ]  # the first turn makes the answer less likely, the others nothing
    after = [[-2.0] * n for n in lengths]
    group = judged(world_, logp__answer__mean=before, logp__answer__mean__next=after)
    found = first_turns(credit.make("igpo"), group)
    assert all(longer > shorter for shorter, longer in itertools.pairwise(found))
    assert "favours long trajectories" in credit.describe("igpo")
