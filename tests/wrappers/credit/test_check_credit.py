"""``check_credit``: released semantics keep the contract, and every rule of the contract and every property can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers.episodes.published_schemes import PUBLISHED

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.wrappers.credit import Credit, CreditError, Scheme, check_credit
from creditflow.wrappers.credit.base import SchemeContractError
from creditflow.wrappers.credit.check import PROPERTIES
from creditflow.wrappers.credit.registry import lookup
from creditflow.wrappers.credit.states.gigpo import discounted_returns
from creditflow.wrappers.trajectory import Group

KEYED = tuple(name for name in credit.names() if "key" in lookup(name).preset("paper"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_released_semantics_satisfy_the_contract_without_declared_properties(name):
    scheme = credit.make(name, semantics="release", **({"key": "state"} if name in KEYED else {}))
    assert scheme.checked_properties == frozenset()
    check_credit(scheme, draws=10)


@pytest.mark.parametrize(
    ("name", "parameters", "declared"),
    [
        ("graphgpo", {"distance_discount": 0.5, "step_weight": 3.0}, True),
        (
            "graphgpo",
            {"distance_discount": 1e-4},
            True,
        ),  # the rewards of far transitions are rounded to one number beside a near one
        ("graphgpo", {"step_weight": 0.0}, False),  # without step credit nothing is monotone
        ("graphgpo", {"episode_weight": -1.0}, False),
        ("gigpo", {"std_eps": 1e-6}, False),
        ("rewardflow", {"pruning": "none"}, False),
    ],
)
def test_properties_are_checked_only_for_the_papers_formula(name, parameters, declared):
    scheme = credit.make(name, **parameters)
    assert bool(scheme.checked_properties) == declared
    check_credit(scheme, draws=10)


@pytest.mark.parametrize("name", credit.names())
def test_the_order_of_groups_in_a_batch_matters_to_no_scheme(name):
    scheme = credit.make(name)
    assert not any(PROPERTIES["batch_permutation"](scheme, np.random.default_rng(seed)) for seed in range(10))


def test_the_report_shows_counterexamples_to_what_is_not_declared():
    report = check_credit(credit.make("gigpo"))
    assert not report.holds("stopping_time")
    assert "trajectories" in report.counterexamples["stopping_time"]
    lines = str(report).splitlines()
    assert lines[0] == "check_credit(gigpo)"
    assert sum(line.strip().split()[0] in PROPERTIES for line in lines[1:]) == len(PROPERTIES)
    with pytest.raises(ConfigError, match="did you mean 'telescoping'"):
        report.holds("telescopes")


# -- schemes that break the contract ------------------------------------------------------------------------------------------
def scheme_of(assign: Callable[[Group], Credit], *, properties: tuple[str, ...] = (), batch=None) -> Scheme:
    @dataclass(frozen=True, kw_only=True)
    class Broken(Scheme):
        name = "broken"

        def assign(self, group):
            return assign(group)

        if batch is not None:

            def assign_batch(self, groups):
                return batch(self, groups)

    Broken.properties = frozenset(properties)
    return Broken()


def zeros(group):
    return np.zeros(len(group)), np.zeros(len(group.turns))


def good(group):
    outcome, step = zeros(group)
    return Credit.of(group, outcome=outcome, step=step)


def not_credit(group):
    return zeros(group)


def short_outcome(group):
    return replace(good(group), outcome_advantages=np.zeros(len(group) + 1))


def short_step(group):
    return replace(good(group), flat_step_advantages=np.zeros(len(group.turns) + 1))


def infinite_step(group):
    return replace(good(group), flat_step_rewards=np.full(len(group.turns), np.nan))


def infinite_outcome(group):
    return replace(good(group), outcome_advantages=np.full(len(group), np.nan))


def number_mask(group):
    return replace(good(group), flat_loss_mask=np.ones(len(group.turns)))


def impure():
    calls = []

    def assign(group):
        calls.append(1)
        return Credit.of(group, outcome=np.zeros(len(group)), step=np.full(len(group.turns), float(len(calls))))

    return assign


def impure_outcome():
    calls = []

    def assign(group):
        calls.append(1)
        return Credit.of(group, outcome=np.full(len(group), float(len(calls))), step=None)

    return assign


def forgets_empty_rollouts(group):
    lengths = [len(t.turns) for t in group.trajectories if t.turns]
    return Credit.of(group, outcome=np.zeros(len(lengths)), step=np.zeros(len(group.turns)))


@pytest.mark.parametrize(
    ("assign", "message"),
    [
        (not_credit, "must return Credit, got tuple"),
        (short_outcome, "outcome_advantages must have shape"),
        (short_step, "flat_step_advantages must have shape"),
        (infinite_step, "flat_step_rewards must be finite"),
        (infinite_outcome, "outcome_advantages must be finite"),
        (number_mask, "loss_mask must be bool"),
        (impure(), "pure: flat_step_advantages differed"),
        (impure_outcome(), "pure: outcome_advantages differed"),
        (forgets_empty_rollouts, "outcome_advantages must have shape"),
    ],
)
def test_a_scheme_that_breaks_the_contract_is_detected(assign, message):
    with pytest.raises((SchemeContractError, CreditError), match=message):
        check_credit(scheme_of(assign))


def test_a_scheme_that_satisfies_the_contract_passes():
    check_credit(scheme_of(good))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (lambda self, groups: [good(groups[0])] * 2, "one Credit per group"),
        (lambda self, groups: [replace(good(g), outcome_advantages=np.ones(len(g))) for g in groups], "equal assign"),
        (lambda self, groups: [good(g) for g in reversed(groups)], "in order"),
    ],
)
def test_a_wrong_assign_batch_is_detected(batch, message):
    with pytest.raises(SchemeContractError, match=message):
        check_credit(scheme_of(good, batch=batch))


def test_a_scheme_that_changes_the_group_is_detected():
    def overwrite(group):
        group.arrays.reward[:] = 0.0
        return good(group)

    with pytest.raises(ValueError, match="read-only"):
        check_credit(scheme_of(overwrite))


# -- schemes that break what they declare -------------------------------------------------------------------------------
def turn_numbers(group):
    """Credit by position: the first rollout gets 0, the second 1, …"""
    return Credit.of(group, outcome=np.arange(len(group), dtype=float))


def raw_return(group):
    return Credit.of(group, outcome=group.arrays.returns)


def one_each(group):
    return Credit.of(group, outcome=np.ones(len(group)))


def squared_return(group):
    return Credit.of(group, outcome=group.arrays.returns**2)


def length(group):
    return Credit.of(group, outcome=np.diff(group.arrays.offsets).astype(float))


def reward_to_go(group):
    returns = discounted_returns(group, group.arrays.reward, 0.9)
    return Credit.of(group, outcome=np.zeros(len(group)), rewards=returns, step=returns)


def against_the_outcome(group):
    outcome = group.arrays.score - 0.5
    return Credit.of(group, outcome=outcome, step=-2.0 * outcome[group.arrays.trajectory])


def stored_numbers(group):
    number = np.arange(len(group.turns)) - group.arrays.offsets[group.arrays.trajectory]
    return Credit.of(group, outcome=np.zeros(len(group)), rewards=number.astype(float))


def fraction_of_entities(group):
    return Credit.of(group, outcome=np.ones(len(group)) / len(group.task["entities"]))


def by_place_in_the_batch(_, groups):
    return [Credit.of(group, outcome=group.arrays.returns * (1.0 + place)) for place, group in enumerate(groups)]


BROKEN = {
    "permutation": turn_numbers,
    "batch_permutation": raw_return,
    "one_member_zero": raw_return,
    "ties_zero": one_each,
    "all_fail_zero": one_each,
    "shift": raw_return,
    "scale": raw_return,
    "homogeneous": squared_return,
    "stopping_time": length,
    "telescoping": reward_to_go,
    "monotone": good,
    "conditional_variance": stored_numbers,
    "keeps_sign": against_the_outcome,
    "unnamed_entity": fraction_of_entities,
    "branches": stored_numbers,
}


BATCHES = {"batch_permutation": by_place_in_the_batch}


def test_every_property_has_a_scheme_that_breaks_it():
    assert set(BROKEN) == set(PROPERTIES)


@pytest.mark.parametrize("name", BROKEN)
def test_a_declared_property_that_does_not_hold_is_detected(name):
    with pytest.raises(SchemeContractError, match=f"declares '{name}' but: "):
        check_credit(scheme_of(BROKEN[name], properties=(name,), batch=BATCHES.get(name)))


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_not_declared_may_fail_with_a_counterexample(name):
    report = check_credit(scheme_of(BROKEN[name], batch=BATCHES.get(name)), draws=20)
    assert not report.holds(name)


@pytest.mark.parametrize("name", ["ties_zero", "all_fail_zero", "one_member_zero"])
@pytest.mark.parametrize(("noise", "holds"), [(1.4e-17, True), (1e-3, False)])
def test_rounding_breaks_no_property(name, noise, holds):
    report = check_credit(scheme_of(lambda group: Credit.of(group, outcome=np.full(len(group), noise))), draws=20)
    assert report.holds(name) == holds


def test_declaring_an_unknown_property_suggests_the_nearest_one():
    with pytest.raises(ConfigError, match="did you mean 'permutation'"):
        check_credit(scheme_of(good, properties=("permutations",)))
