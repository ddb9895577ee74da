"""Decision lists: what they choose, that the search finds the best one, and that evaluation leaves the evaluated suite out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from evidence.choice.rules import ChoiceCell, Condition, LogFeatures, Rules, common_methods, fit_rules, regrets
from evidence.choice.run import evaluate, fitted_name
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError

PLAIN = LogFeatures(
    repeated=0.8, conflicted=0.0, size=8.0, batch=16.0, success=0.3, all_failed=0.1, graded=0.0, step_rewards=0.0,
    length=12.0, length_spread=0.4,
)  # fmt: skip
METHODS = ("grpo", "gigpo", "graphgpo")


def cell(suite: str = "s", repeated: float = 0.8, size: float = 8.0, **areas: float) -> ChoiceCell:
    return ChoiceCell(suite, f"{repeated} {size}", replace(PLAIN, repeated=repeated, size=size), areas)


def fresh_or_not(suite: str, shift: float = 0.0) -> list[ChoiceCell]:
    """gigpo is best where keys repeat, grpo where they do not."""
    return [cell(suite, 0.1 + 0.2 * i, grpo=0.5 + shift, gigpo=0.4 + 0.05 * i + shift, graphgpo=0.3) for i in range(5)]


def test_the_first_condition_that_holds_decides() -> None:
    rules = Rules((Condition("repeated", False, 0.5, "grpo"), Condition("size", True, 4.0, "gigpo")), "rloo")
    assert rules.choose(replace(PLAIN, repeated=0.2))[0] == "grpo"
    assert rules.choose(PLAIN)[0] == "gigpo"
    assert rules.choose(replace(PLAIN, size=2.0)) == ("rloo", "otherwise: rloo")
    assert "is below 0.5: grpo" in str(rules)
    assert Rules.from_json(rules.to_json()) == rules


def test_one_condition_separates_what_one_feature_separates() -> None:
    cells = [*fresh_or_not("a"), *fresh_or_not("b", 0.1)]
    rules = fit_rules(cells, METHODS, depth=1)
    assert [c.feature for c in rules.conditions] == ["repeated"]
    assert regrets(cells, METHODS, rules) == pytest.approx(0.0)


def test_without_conditions_the_best_single_scheme_is_taken() -> None:
    cells = [cell(grpo=0.5, gigpo=0.6), cell(grpo=0.9, gigpo=0.7), cell(grpo=0.5, gigpo=0.6)]
    assert fit_rules(cells, METHODS[:2], depth=0) == Rules((), "grpo")
    assert regrets(cells, METHODS[:2], Rules((), "grpo")) == pytest.approx([10.0, 0.0, 10.0])


def test_suites_weigh_the_same_whatever_their_number_of_cells() -> None:
    many = [cell("many", grpo=0.5, gigpo=0.6) for _ in range(9)]
    assert fit_rules([*many, cell("one", grpo=0.9, gigpo=0.6)], METHODS[:2], depth=0).otherwise == "grpo"


@given(st.integers(0, 2**32 - 1))
def test_deeper_lists_are_never_worse_on_the_cells_that_they_were_fitted_to(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [
        cell(
            "ab"[i % 2],
            float(rng.random()),
            float(rng.integers(1, 9)),
            **dict(zip(METHODS, rng.random(3).tolist(), strict=True)),
        )
        for i in range(8)
    ]
    weights = np.full(8, 1 / 8)
    means = [float(weights @ regrets(cells, METHODS, fit_rules(cells, METHODS, depth=d))) for d in (0, 1, 2)]
    assert means[0] >= means[1] - 1e-9 >= means[2] - 2e-9


def every_list(cells: list[ChoiceCell], methods: tuple[str, ...], depth: int) -> Iterator[Rules]:
    """All decision lists of up to two conditions on ``repeated`` that hold in three cells or more and leave as many."""
    yield from (Rules((), name) for name in methods)
    values = sorted({one.features.repeated for one in cells})
    conditions = [
        Condition("repeated", at_least, float(f"{(low + high) / 2:.3g}"), name)
        for low, high in pairwise(values)
        for at_least in (True, False)
        for name in methods
    ]
    for count in range(1, depth + 1):
        for chosen in product(conditions, repeat=count):
            left, sizes = cells, list[int]()
            for condition in chosen:
                sizes.append(sum(condition.holds(one.features) for one in left))
                left = [one for one in left if not condition.holds(one.features)]
                sizes.append(len(left))
            if min(sizes) >= 3:
                yield from (Rules(chosen, name) for name in methods)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 2]))
def test_no_list_of_that_depth_has_less_regret(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [
        cell("abb"[i % 3], rng.integers(0, 4) / 10, **dict(zip(METHODS[:2], rng.random(2).tolist(), strict=True)))
        for i in range(12)
    ]
    weight = np.array([1 / 4 if one.suite == "a" else 1 / 8 for one in cells]) / 2  # suites weigh the same

    def mean_regret(rules: Rules) -> float:
        return float(weight @ regrets(cells, METHODS[:2], rules))

    fitted = fit_rules(cells, METHODS[:2], depth=depth, features=("repeated",))
    assert len(fitted.conditions) <= depth
    best = min(map(mean_regret, every_list(cells, METHODS[:2], depth)))
    assert mean_regret(fitted) == pytest.approx(best, abs=1e-9)


def test_a_condition_that_gains_nothing_is_left_out() -> None:
    cells = [cell(repeated=i / 10, grpo=0.5, gigpo=0.6, graphgpo=0.1) for i in range(9)]
    assert all(fit_rules(cells, METHODS, depth=depth) == Rules((), "gigpo") for depth in (0, 1, 2))


def test_what_cannot_be_fitted_is_an_error() -> None:
    for cells, depth in (([], 0), ([cell(grpo=0.1)], 3), ([cell(grpo=0.1)], -1)):
        with pytest.raises(ValueError, match="depth of 0, 1 or 2"):
            fit_rules(cells, ("grpo",), depth=depth)


def test_a_condition_holds_in_several_cells_and_leaves_several() -> None:
    lucky = [
        cell(repeated=0.1, grpo=0.9, gigpo=0.1),
        *(cell(repeated=0.5 + i / 20, grpo=0.4, gigpo=0.5) for i in range(6)),
    ]
    for depth in (1, 2):
        rules = fit_rules(lucky, METHODS[:2], depth=depth)
        held = [sum(condition.holds(one.features) for one in lucky) for condition in rules.conditions]
        assert all(3 <= count <= 4 for count in held)
    assert fit_rules(lucky[:4], METHODS[:2], depth=2).conditions == ()


def test_only_methods_of_all_cells_are_compared() -> None:
    assert common_methods([cell(grpo=0.1, gigpo=0.2), cell(gigpo=0.3, rloo=0.1)]) == ("gigpo",)
    assert common_methods([]) == ()


def test_the_evaluated_suite_is_left_out() -> None:
    # in each suite another method is best: what was fitted on the others is wrong
    cells = [cell("a", grpo=0.9, gigpo=0.5)] * 3 + [cell("b", grpo=0.5, gigpo=0.9)] * 3
    found = evaluate(cells, ["grpo"])
    assert found.mean(fitted_name(0)).mean == pytest.approx(40.0)
    assert found.mean("always grpo").mean == pytest.approx(20.0)


def test_rules_are_accepted_only_where_they_help_on_suites_left_out() -> None:
    helpful = [one for suite in "abc" for one in fresh_or_not(suite, 0.01 * ord(suite))]
    found = evaluate(helpful)
    assert found.accepted() in (1, 2)
    assert found.mean(fitted_name(1), found.best_single()).interval[1] < 0.0
    same = [cell(suite, 0.1 * i, grpo=0.5, gigpo=0.6) for suite in "abc" for i in range(5)]
    assert evaluate(same).accepted() == 0


def test_of_rules_that_help_the_deepest_are_used() -> None:
    # grpo, gigpo and graphgpo are best in three cells each, by how often keys repeat
    cells = [
        cell(suite, 0.1 * i, **{name: 0.5 + 0.1 * (i // 3 == k) + 0.001 * (i + ord(suite)) for k, name in enumerate(METHODS)})
        for suite in "abc"
        for i in range(9)
    ]  # fmt: skip
    found = evaluate(cells)
    assert all(found.mean(fitted_name(depth), found.best_single()).interval[1] < 0.0 for depth in (1, 2))
    assert found.accepted() == 2
    assert found.used() == found.fitted[2]
    assert len(found.used().conditions) == 2


def test_suites_weigh_the_same_in_a_mean() -> None:
    sizes = {"a": 2, "b": 3, "c": 5}
    cells = [cell(suite, grpo=0.5, gigpo=0.5 + 0.1 * k) for k, (suite, n) in enumerate(sizes.items()) for _ in range(n)]
    found = evaluate(cells, ["grpo", "gigpo"])
    assert found.mean("always grpo").mean == pytest.approx((0.0 + 10.0 + 20.0) / 3)
    assert found.mean("always grpo", "always gigpo").mean == pytest.approx(10.0)
    unequal = [cell("a", grpo=0.5, gigpo=x) for x in (0.5, 0.7)] + [cell("b", grpo=0.5, gigpo=x) for x in (0.6,) * 3]
    # of the mean over suites: the standard error of a's two cells, 10, halved; b's is 0
    assert evaluate(unequal, ["grpo"]).mean("always grpo").standard_error == pytest.approx(5.0)


def test_a_single_suite_cannot_be_left_out() -> None:
    with pytest.raises(ConfigError, match="two suites or more"):
        evaluate(fresh_or_not("a"))


def test_the_standard_scheme_stays_unless_another_is_shown_to_be_better() -> None:
    near = [
        cell(suite, 0.1 * i, grouptd_relative=0.6 + 0.01 * (-1) ** i, gigpo=0.602) for suite in "abc" for i in range(5)
    ]
    assert evaluate(near, ["grouptd_relative"]).used() == Rules((), "grouptd_relative")
    clear = [cell(suite, 0.1 * i, grouptd_relative=0.5, gigpo=0.6 + 0.001 * i) for suite in "abc" for i in range(5)]
    assert evaluate(clear, ["grouptd_relative"]).used() == Rules((), "gigpo")
