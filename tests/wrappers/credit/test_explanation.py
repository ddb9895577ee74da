"""An explanation adds up to the credit that it explains, for every scheme, and names what the turn was compared with."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.plugins import SCHEME
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import ConfigError
from creditflow.train.cli import main
from creditflow.wrappers.credit.base import Credit, Scheme, SchemeContractError
from creditflow.wrappers.credit.explanation import scored
from creditflow.wrappers.credit.properties import sample_group
from creditflow.wrappers.credit.random_group import random_fork, random_group
from creditflow.wrappers.credit.registry import assigned
from creditflow.wrappers.credit.states.keys import StateScheme
from creditflow.wrappers.records.jsonl import write_jsonl

SEEDS = st.integers(0, 2**32 - 1)


def explained(groups, scheme):
    return [[view.explanation(*place) for place in view.turns] for view in scored(groups, scheme)]


def check_sums(scheme, groups):
    credits_ = assigned(scheme, groups)
    for credited, explanations in zip(credits_, explained(groups, scheme), strict=True):
        advantages = credited.flat_advantages.tolist()
        assert [why.advantage for why in explanations] == advantages
        for why, advantage in zip(explanations, advantages, strict=True):
            assert math.isclose(math.fsum(term.value for term in why.terms), advantage, rel_tol=1e-12, abs_tol=1e-12), (
                why
            )
            assert f"{why.trajectory_id}:{why.turn}" in {turn.turn for turn in why.same_state}
            assert str(why)
            assert json.dumps(why.to_json(), allow_nan=False)


@pytest.mark.parametrize("name", credit.names())
@settings(max_examples=20)
@given(seed=SEEDS, semantics=st.sampled_from(["paper", "release"]), penalty=st.booleans())
def test_the_terms_of_every_scheme_add_up_to_its_advantages(name, seed, semantics, penalty):
    kind = credit.registry.lookup(name)
    options = {"invalid_penalty": 0.3} if penalty and "invalid_penalty" in kind.preset("paper") else {}
    scheme = credit.make(name, semantics=semantics if semantics in kind.presets else "paper", **options)
    rng = np.random.default_rng(seed)
    first = sample_group(scheme, rng, dense=True)
    second, _ = random_fork(rng, sample_group(scheme, rng))
    check_sums(scheme, [first, second])


@dataclass(frozen=True, kw_only=True)
class Plain(Scheme):
    """A scheme of a user, who names no terms."""

    name = "plain"

    def assign(self, group):
        returns = group.arrays.returns
        return Credit.of(group, outcome=returns - returns.mean(), step=group.arrays.reward)


@given(seed=SEEDS)
def test_a_scheme_without_terms_has_its_outcome_and_its_step(seed):
    scored = sample_group(Plain(), np.random.default_rng(seed), dense=True)
    check_sums(Plain(), [scored])
    assert [term.name for term in credit.explain(scored, Plain(), 0, 0).terms] == [
        "outcome advantage",
        "step advantage",
    ]


def test_terms_that_do_not_add_up_are_the_schemes_fault():
    class Wrong(Plain):
        def assign(self, group):
            return replace(super().assign(group), step_terms={"half": group.arrays.reward / 2 + 1})

    with pytest.raises(SchemeContractError, match="scheme 'plain': step_terms must add up"):
        credit.explain(group(walk("s g")), Wrong(), 0, 0)


def test_gigpo_by_hand():
    """Two trajectories meet in s: returns 1 and 0, mean .5, deviation 1/√2, so ±1/√2 twice."""
    scored = group(walk("s g", "success", reward=1.0), walk("s f", "failed", name="second"))
    why = credit.explain(scored, "gigpo", 0, 0)
    assert why.state == "s"
    assert [round(term.value, 12) for term in why.terms] == [round(math.sqrt(0.5), 12), 0, round(math.sqrt(0.5), 12)]
    of_return = next(c for c in why.comparisons if c.quantity == "discounted return")
    assert (of_return.value, of_return.mean) == (1.0, 0.5)
    assert of_return.deviation == of_return.divisor == pytest.approx(math.sqrt(0.5))
    first, second = (member.trajectory_id for member in scored.trajectories)
    assert of_return.samples == (f"{first}:0", f"{second}:0")
    assert [turn.turn for turn in why.same_state] == [f"{first}:0", f"{second}:0"]


@pytest.mark.parametrize(
    "name", [name for name in credit.names() if issubclass(credit.registry.lookup(name), StateScheme)]
)
def test_numbers_of_a_state_are_those_of_the_turns_own_state_also_with_as_many_states_as_turns(name):
    """Found by a reader: arrays were told apart by their length."""
    equal = 0
    for seed in range(300):
        one = random_group(np.random.default_rng(seed))
        [why] = explained([one], name)
        diagnostics = credit.make(name).assign_batch([one])[0].diagnostics
        keys = list(diagnostics.get("node_keys", ()))
        equal += len(keys) == len(why)
        for number in diagnostics.get("node_numbers", ()):
            for turn in why:
                shown = turn.numbers.get(f"{number} of the state")
                assert shown == (float(diagnostics[number][keys.index(turn.state)]) if turn.state in keys else None)
    assert equal or not keys


def test_turns_in_the_state_are_those_compared_by_graphgpo_also_where_ends_are_merged():
    for seed in range(40):
        one = random_group(np.random.default_rng(seed))
        for terminals in ("typed", "merged"):
            scheme = credit.make("graphgpo", key="text", terminals=terminals)
            for why in explained([one], scheme)[0]:
                [compared] = [
                    found.samples for found in why.comparisons if found.quantity == "reward of the transition"
                ]
                assert set(compared) == {turn.turn for turn in why.same_state}


def test_what_does_not_exist_is_named():
    scored = group(walk("s g"))
    for trajectory, turn, message in (
        ("nobody", 0, "unknown trajectory"), (3, 0, "has trajectories 0 to 0"), (0, 1, "has turns 0 to 0"), (0, -1, "has turns"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            credit.explain(scored, "grpo", trajectory, turn)


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    members = group(walk("s g", "success", reward=1.0, name="a"), walk("s f", "failed", name="b")).trajectories
    write_jsonl("log.jsonl", [*members, *(replace(member, group_id="g2") for member in members[:1])])
    (tmp_path / "mine.py").write_text(SCHEME, "utf-8")
    return members[0].group_id


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("scheme", ["gigpo", "mine.py:Mine"])
def test_the_command_explains_one_turn(scheme, log, capsys):
    assert main(["credit", "--scheme", scheme, "log.jsonl", "--why", "b:0"]) == 0
    assert "is the sum of" in capsys.readouterr().out
    assert main(["credit", "--scheme", scheme, "log.jsonl", "--why", f"{log}/a:0", "--json"]) == 0
    why = json.loads(capsys.readouterr().out)
    assert math.fsum(term["value"] for term in why["terms"]) == pytest.approx(why["advantage"], abs=1e-12)


@pytest.mark.parametrize("escape", ["\x1b]0;owned\x07\x1b[2J", "\u202e", "\x9b31m"])
def test_what_a_log_says_cannot_command_the_terminal(escape, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    played = random_group(np.random.default_rng(1)).trajectories
    members = [
        replace(member, trajectory_id=f"{i}{escape}", turns=tuple(replace(turn, action=turn.action + escape) for turn in member.turns))
        for i, member in enumerate(member for member in played if member.fork_turn < 0)
    ]  # fmt: skip
    write_jsonl("log.jsonl", members)
    shown = []
    for why, code in ((f"0{escape}:0", 0), ("x:0", 2)):
        assert main(["credit", "--scheme", "gigpo", "log.jsonl", "--why", why]) == code
        shown += capsys.readouterr()
    assert not {*"".join(shown)} & {*escape} - {*"[]0;owned2J31m"}


@pytest.mark.parametrize(
    ("why", "message"),
    [("a:0", "2 groups have a trajectory 'a'"), ("c:0", "unknown trajectory 'c'"), ("b", "takes TRAJECTORY:TURN"), ("b:7", "has turns 0 to 0")],
)  # fmt: skip
def test_a_turn_that_is_not_there_is_wrong_use(why, message, log, capsys):
    assert main(["credit", "--scheme", "grpo", "log.jsonl", "--why", why]) == 2
    assert message in capsys.readouterr().err
