"""Sums of schemes: what they are, what they take over from their terms, and what is refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import annotated, group, walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError, CreditflowError
from creditflow.wrappers import DenseReward
from creditflow.wrappers.credit.base import Credit, Scheme
from creditflow.wrappers.credit.combined import LINEAR, schemes_of
from creditflow.wrappers.credit.properties import sample_group
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.records.group import Group

PLAIN = [name for name in credit.names() if not credit.make(name).requires_tokens]
RACE = group(walk("s a g"), walk("s a x", "failed"), walk("s b", "failed"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PLAIN), st.sampled_from(PLAIN), st.floats(-4, 4), st.floats(-4, 4), st.integers(0, 10**6))
def test_a_sum_is_the_manual_sum_bit_for_bit(one: str, two: str, v: float, w: float, seed: int) -> None:
    summed = credit.Sum([(v, credit.make(one)), (w, credit.make(two))])
    played = sample_group(summed, np.random.default_rng(seed), dense=True)
    if summed.undefined_on(played):
        return
    a, b = (credit.make(name).assign(played) for name in (one, two))
    if a.value_targets is not None and b.value_targets is not None:
        with pytest.raises(credit.CreditError, match="2 terms train the critic"):
            summed.assign(played)
        return
    scored = summed.assign(played)
    kept = [np.where(each.flat_loss_mask, each.flat_advantages, 0.0) for each in (a, b)]
    assert scored.flat_advantages.tolist() == (v * kept[0] + w * kept[1]).tolist()
    assert scored.flat_loss_mask.tolist() == (a.flat_loss_mask | b.flat_loss_mask).tolist()
    assert summed.assign(played).flat_advantages.tolist() == scored.flat_advantages.tolist()


def test_a_text_makes_the_same_scheme_as_the_class() -> None:
    made = credit.make("0.5*grpo + 2*gigpo+rloo", discount=0.8, outcome="success")
    same = credit.Sum(
        [
            (0.5, credit.make("grpo", outcome="success")),
            (2, credit.make("gigpo", outcome="success", discount=0.8)),
            (1.0, credit.make("rloo", outcome="success")),
        ]
    )
    assert made == same
    assert made.name == same.name == "0.5*grpo + 2*gigpo + rloo"
    assert copy.deepcopy(made) == made
    assert schemes_of(credit.make(made.name, semantics="release"))[0] == credit.make("grpo", semantics="release")


def test_centring_and_division_are_those_of_the_sum() -> None:
    centred = credit.make("0.5*grpo + 0.5*stateless", centre="group").assign(RACE)
    assert centred.flat_advantages.sum() == pytest.approx(0.0)
    plain = credit.make("0.5*grpo + 0.5*stateless").assign(RACE).flat_advantages
    np.testing.assert_allclose(centred.flat_advantages, plain - plain.mean(), atol=1e-12)


def test_every_term_and_what_it_compared_is_in_the_explanation() -> None:
    why = credit.explain(RACE, "0.5*grpo + 0.5*gigpo", 0, 1)
    parts = {name: credit.explain(RACE, name, 0, 1) for name in ("grpo", "gigpo")}
    assert {term.name: term.value for term in why.terms} == {
        "outcome advantage": 0.0, "0.5*grpo": 0.5 * parts["grpo"].advantage, "0.5*gigpo": 0.5 * parts["gigpo"].advantage,
    }  # fmt: skip
    assert why.comparisons == (*parts["grpo"].comparisons, *parts["gigpo"].comparisons)
    assert (why.parameters["grpo.std_eps"], why.parameters["gigpo.discount"]) == (0.0, 0.95)
    twice = credit.Sum([(0.5, credit.make("gigpo")), (0.5, credit.make("gigpo", discount=0.5))])
    assert list(twice.assign(RACE).step_terms) == ["0.5*gigpo", "0.5*gigpo (term 2)"]


@pytest.mark.parametrize(
    "text", ["0.5*grpo + 0.5*rloo", "2*rloo + -1*turn_loo", "grpo + gigpo", "mt_ppo + grpo", "0*grpo + egrpo"]
)
def test_a_sum_declares_what_all_its_terms_have_and_check_credit_agrees(text: str) -> None:
    scheme = credit.make(text)
    assert scheme.checked_properties <= LINEAR
    assert credit.check_credit(scheme, draws=15).declared == scheme.checked_properties


def test_the_loss_is_averaged_as_all_terms_say_or_over_tokens() -> None:
    assert credit.make("grpo + rloo").assign(RACE).aggregation == "trajectory_mean"
    assert credit.make("grpo + gigpo").assign(RACE).aggregation == "token_mean"


def test_a_sum_needs_what_its_terms_need() -> None:
    scheme = credit.make("0.5*prm + 0.5*egrpo + blend")
    assert scheme.needs == ("judge.score",)
    assert scheme.task_fields == credit.make("egrpo").task_fields
    assert scheme.texts == credit.make("egrpo").texts
    assert scheme.couples_groups
    assert "its term prm: its turns have no annotation 'judge.score'" in credit.make("grpo + prm").undefined_on(RACE)
    judged = group(
        annotated(walk("s g"), {"judge.score": [0.5]}), annotated(walk("s x", "failed"), {"judge.score": [0.1]})
    )
    assert not credit.make("grpo + prm").undefined_on(judged)


def test_a_turn_that_one_scheme_leaves_out_of_the_loss_gets_the_others_credit() -> None:
    class FirstTurns(Scheme):
        name = "first_turns"

        def assign(self, group: Group) -> Credit:
            first = np.zeros(len(group.turns), np.bool_)
            first[group.arrays.offsets[:-1]] = True
            return Credit.of(group, outcome=np.ones(len(group)), loss_mask=first)

    scored = credit.Sum([(1.0, credit.make("grpo")), (10.0, FirstTurns())]).assign(RACE)
    expected = credit.make("grpo").assign(RACE).flat_advantages + np.array([10.0, 0.0, 10.0, 0.0, 10.0])
    assert scored.flat_advantages.tolist() == expected.tolist()
    assert scored.flat_loss_mask.all()
    assert credit.Sum([(1.0, FirstTurns())]).assign(RACE).flat_loss_mask.tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "got nothing. Write one plus sign") for text in ("grpo ++ gigpo", "grpo + + gigpo", "+grpo", "grpo +", "+")),
        *((f"{w}*grpo + gigpo", f"weight of grpo in a sum must be a finite number, got {w}") for w in ("nan", "inf", "-inf")),
        ("x*grpo + gigpo", "expected a number before \\*, got 'x'"),
        ("grpo*0.5", "expected a number before \\*, got 'grpo'"),
        *((text, "such as 0.5\\*grpo") for text in ("2*3*grpo", "*grpo", "0.5*", "**")),
        ("grpo + gigp", "did you mean 'gigpo'"),
        ("grpo - gigpo + rloo", "unknown credit scheme 'grpo - gigpo'"),
        ("0.5*grpo + 0.5*grpo", "grpo is named a second time"),
        ("grpo + ppo_gae", "ppo_gae credits tokens"),
    ],
)  # fmt: skip
def test_what_is_no_sum_is_refused_with_the_remedy(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        credit.make(text)


def test_parameters_that_no_term_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'discount'"):
        credit.make("grpo + gigpo", discont=0.5)
    with pytest.raises(ConfigError, match="std_eps must lie in"):
        credit.make("grpo + gigpo", std_eps=-1.0)
    with pytest.raises(ConfigError, match="semantics of stateless"):
        credit.make("grpo + stateless", semantics="release")


@pytest.mark.parametrize(
    "terms", [[], [("0.5", credit.make("grpo"))], [(True, credit.make("grpo"))], [(0.5, "grpo")], [0.5], "grpo"]
)
def test_the_class_refuses_what_is_no_term(terms: Any) -> None:
    with pytest.raises(ConfigError, match=r"at least one term|finite number|must be \(weight, scheme\)"):
        credit.Sum(terms)


def test_weights_beyond_float64_are_an_error_of_the_group() -> None:
    with pytest.raises(CreditflowError, match="must be finite"):
        credit.make("1e308*grpo + 1e308*rloo").assign(RACE)


def test_a_scheme_may_not_have_the_name_of_a_sum() -> None:
    class Both(Scheme):
        name = "grpo+gigpo"

        def assign(self, group: Group) -> Credit:
            raise NotImplementedError

    with pytest.raises(ConfigError, match="those of sums of schemes"):
        credit.register(Both)


def test_a_sum_is_no_potential() -> None:
    import creditflow

    with pytest.raises(ConfigError, match="it is a sum of credits"):
        DenseReward(creditflow.make("sokoban"), "0.5*graphgpo + 0.5*gigpo", gamma=0.99)


def test_the_bridge_and_check_batch_take_a_sum() -> None:
    played = list[Group]()
    for seed in range(4):
        sampled = random_group(np.random.default_rng(seed), dense=True)
        members = [replace(m, group_id=f"g{seed}") for m in sampled.trajectories]
        played.append(Group(tuple(members), sampled.task))
    turns = credit.TurnColumns.of(played)
    mask = np.ones((sum(len(each.turns) for each in played), 3), bool)
    both, grpo, gigpo = (
        credit.advantages(scheme, turns, mask=mask).per_token for scheme in ("0.5*grpo + 0.5*gigpo", "grpo", "gigpo")
    )
    assert both is not None and grpo is not None and gigpo is not None
    np.testing.assert_allclose(both, 0.5 * grpo + 0.5 * gigpo, atol=1e-12)
    report = credit.check_batch(both, mask, groups=np.repeat(range(len(played)), [len(each.turns) for each in played]))
    assert "nan" not in str(report)
    rewards = [1.0, 0.0, 0.0, 1.0]
    scored = credit.make("0.5*grpo").assign(group(*[walk("s g") if r else walk("s x", "failed") for r in rewards]))
    numbers = [advantages[0] for advantages in scored.advantages]
    checked = credit.check_batch(numbers, np.ones((4, 2), bool), groups=[0] * 4, rewards=rewards)
    assert checked.scheme == "grpo"
    assert checked.factor == pytest.approx(0.5)


def test_the_benchmark_compares_a_sum_by_its_text() -> None:
    from creditflow.train.bench.methods import canonical_name, played_method, scheme_entry, settings_of

    text = "0.5*grpo + 0.5*gigpo"
    scored = played_method(text, 20, [0])(RACE).flat_advantages
    np.testing.assert_array_equal(scored, credit.make(text).assign(RACE).flat_advantages)
    assert scheme_entry(text).scheme_for(20, "text") == credit.make(text, key="text")
    assert settings_of([text]) == {}
    assert [canonical_name(name) for name in ("gigpo{step_weight=2e+0}", text)] == ["gigpo{step_weight=2}", text]
    with pytest.raises(ConfigError, match="did you mean 'gigpo'"):
        canonical_name("0.5*grpo + 0.5*gigp")


def test_the_command_explains_a_sum(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from creditflow.train.cli import main
    from creditflow.wrappers.records.jsonl import write_jsonl

    log = tmp_path / "log.jsonl"
    write_jsonl(log, [RACE])
    first = RACE.trajectories[0].trajectory_id
    assert main(["credit", "--scheme", "0.5*grpo + 0.5*gigpo", str(log), "--why", f"{first}:1"]) == 0
    shown = capsys.readouterr().out
    assert "  0.5*grpo\n" in shown
    assert "  0.5*gigpo\n" in shown
    assert main(["credit", "--scheme", "0.5*grpo + 0.5*gigp", str(log)]) == 2
    assert "did you mean 'gigpo'" in capsys.readouterr().err
    assert main(["credit", "--scheme", "grpo + gigpo", "--explain"]) == 0
    assert "gigpo: " in capsys.readouterr().out
