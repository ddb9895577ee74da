"""The arrays that an estimator sees, and what it may return."""

from __future__ import annotations

import numpy as np
import pytest

from creditflow.train.bench.estimators.conformance import SITUATIONS, RandomBatches, candidates, compare
from creditflow.train.bench.estimators.contract import advantages_of, rows_of
from creditflow.wrappers.credit.base import CreditError
from creditflow.wrappers.credit.random_group import random_group


def centered(rows):
    outcome = np.bincount(rows.trajectory, rows.reward)
    group = rows.group[rows.first]
    return (outcome - (np.bincount(group, outcome) / np.bincount(group))[group])[rows.trajectory]


def leave_one_out(rows):
    outcome, group = rows.returns, rows.group[rows.first]
    count = np.bincount(group)[group]
    others = np.bincount(group, outcome)[group] - outcome
    return np.where(count > 1, outcome - others / np.maximum(count - 1, 1), 0.0)[rows.trajectory]


def standardised(rows, eps=0.0):
    outcome, group, out = rows.returns, rows.group[rows.first], np.zeros(len(rows.first))
    for name in np.unique(group):
        own = outcome[group == name]
        deviation = own.std(ddof=1) if len(own) > 1 else 0.0
        out[group == name] = (own - own.mean()) / (deviation + eps) if deviation > 0 else 0.0
    return out[rows.trajectory]


def test_rows_are_the_turns_in_order_with_states_of_their_own_group():
    groups = [random_group(np.random.default_rng(seed), token_values=("x",)) for seed in (1, 2)]
    rows = rows_of(groups)
    turns = [turn for group in groups for turn in group.turns]
    lengths = [len(m.turns) for group in groups for m in group.trajectories]
    assert rows.reward.tolist() == [turn.reward for turn in turns]
    assert np.bincount(rows.trajectory).tolist() == lengths
    assert rows.step.tolist() == [t for n in lengths for t in range(n)]
    assert rows.returns.tolist() == [m.episode_return for group in groups for m in group.trajectories]
    assert rows.success.tolist() == [m.success for group in groups for m in group.trajectories]
    keys = [(g, turn.state_key) for g, group in enumerate(groups) for turn in group.turns]
    names = dict(zip(rows.state.tolist(), keys, strict=True))
    assert [names[state] for state in rows.state.tolist()] == keys
    assert len(names) == len({*keys})
    inside = rows.step[1:] > 0
    assert (rows.state[1:][inside] == rows.next_state[:-1][inside]).all()
    assert len(rows.token_turn) == rows.tokens.sum()
    assert not rows.reward.flags.writeable


def test_text_keys_are_compared_where_they_are_asked_for():
    group = random_group(np.random.default_rng(3))
    state, text = rows_of([group]), rows_of([group], "text")
    assert len({*text.state.tolist()}) >= len({*state.state.tolist()})


def test_one_number_per_token_becomes_its_mean_over_the_turn():
    group = random_group(np.random.default_rng(5), token_values=("x",))
    rows = rows_of([group])
    values, spread = advantages_of("f", lambda rows: rows.token_turn * 2.0, rows)
    assert values.tolist() == (2.0 * np.arange(len(rows.reward))).tolist()
    assert spread == 0.0
    _, spread = advantages_of("f", lambda rows: np.arange(rows.tokens.sum()), rows)
    assert spread == rows.tokens.max() - 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: np.zeros(3), "must return"), (lambda _: "text", "must return numbers"),
        (lambda rows: rows.reward * np.nan, "not finite"), (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda rows: rows.nothing, "AttributeError"),
    ],
)  # fmt: skip
def test_anything_else_is_an_error_that_names_the_estimator(function, message):
    rows = rows_of([random_group(np.random.default_rng(9), size=4)])
    with pytest.raises(CreditError, match=f"mine.*{message}|{message}"):
        advantages_of("mine", function, rows)


POOL = candidates()
RANDOM = RandomBatches(seed=0, count=6)


def compared(function, name):
    [candidate] = [one for one in POOL if one.name == name]
    [found] = compare("f", function, [candidate], RANDOM)
    return found


@pytest.mark.parametrize(
    ("function", "name"),
    [(leave_one_out, "rloo (paper)"), (standardised, "grpo (paper)"), (centered, "grpo (outcome_scale=none)")],
)
def test_an_estimator_is_identified_by_its_numbers_and_no_other_equals_it(function, name):
    found = compare("f", function, POOL, RANDOM)
    assert [one.candidate for one in found if one.identified] == [name]


def test_a_small_number_in_the_denominator_is_told_from_equality_and_the_first_difference_is_shown():
    found = compared(lambda rows: standardised(rows, 1e-4), "grpo (paper)")
    assert found.verdicts["unequal lengths"] == "equal up to a small number"
    assert compared(centered, "rloo (paper)").verdicts["unequal lengths"] == "proportional"
    flipped = compared(lambda rows: -leave_one_out(rows), "rloo (paper)")
    assert flipped.verdicts["unequal lengths"] == "differs"
    assert flipped.verdicts["equal outcomes"] == "equal"
    assert "trajectory" in flipped.first["unequal lengths"]
    assert "ours" in flipped.first["unequal lengths"]


def test_a_situation_that_an_estimator_rejects_is_reported_and_the_others_are_compared():
    def picky(rows):
        if (np.bincount(rows.group[rows.first]) < 2).any():
            raise ValueError("needs two")
        return leave_one_out(rows)

    found = compared(picky, "rloo (paper)")
    assert found.identified
    assert {*found.verdicts} == {*SITUATIONS}
    rejected = found.verdicts.pop("groups of one")
    assert rejected.startswith("not scored: f cannot score this batch: ValueError: needs two")
    assert {*found.verdicts.values()} == {"equal"}
    assert not compared(lambda rows: 1 / 0, "rloo (paper)").identified
