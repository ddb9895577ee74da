"""A scheme scores any group or raises a creditflow error."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow import credit
from creditflow.envs.errors import CreditflowError, TrajectoryError
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.credit.random_group import random_group
from creditflow.wrappers.trajectory import Group, Trajectory, Turn

FIELDS = ["entities", "edges", "answer_node", "answers", "text", "documents", "supporting", "search_keys", "steps"]
READERS = [
    ("gdcr", {}),
    ("gdcr", {"answer": "virtual"}),
    ("sapo", {}),
    ("egrpo", {"aliases": True}),
    ("stepsearch", {}),
]
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=2))
JUNK = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner, inner), st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)  # fmt: skip


def broken(data: Any, value: Any) -> Any:
    """Replace the value, or a part of it, by a value of another type."""
    if not data.draw(st.booleans()):
        return data.draw(JUNK)
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: broken(data, value[key])}
    if isinstance(value, list) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        return [*value[:at], broken(data, value[at]), *value[at + 1 :]]
    return data.draw(JUNK)


def only_named_errors(scheme: credit.Scheme, group: Group) -> None:
    try:
        assert np.isfinite(scheme.assign(group).flat_advantages).all()
    except CreditflowError as error:
        assert str(error)


@pytest.mark.parametrize(("name", "options"), READERS)
@settings(max_examples=150)
@given(seed=st.integers(0, 100), field=st.sampled_from(FIELDS), data=st.data())
def test_a_field_of_the_task_of_any_type_is_read_or_reported(name, options, seed, field, data):
    group = random_group(np.random.default_rng(seed))
    task = {**group.task, field: broken(data, group.task.get(field, [["entity 0"]]))}
    only_named_errors(credit.make(name, **options), Group(group.trajectories, task))


@pytest.mark.parametrize(("name", "options"), READERS)
@settings(max_examples=50)
@given(
    seed=st.integers(0, 100),
    field=st.sampled_from(["observation", "thought", "response", "queries", "entities", "doc_ids"]),
    data=st.data(),
)
def test_a_text_of_any_type_is_read_or_reported(name, options, seed, field, data):
    group = random_group(np.random.default_rng(seed))
    first = group.trajectories[0]
    turn = replace(first.turns[0], **{field: data.draw(JUNK)})
    member = replace(first, turns=(turn, *first.turns[1:]))
    only_named_errors(credit.make(name, **options), Group((member, *group.trajectories[1:]), group.task))


@pytest.mark.parametrize("name", ["gdcr", "egrpo", "stepsearch"])
def test_a_value_of_the_wrong_type_is_reported_with_its_position(name):
    group = random_group(np.random.default_rng(0))
    first = group.trajectories[0]
    member = replace(first, turns=(replace(first.turns[0], queries=(None,)), *first.turns[1:]))  # type: ignore[arg-type]  # the mistake under test
    wrong = Group((member, *group.trajectories[1:]), group.task)
    with pytest.raises(CreditError, match=r"trajectory 't0', turn 0: queries must be strings, got \(None,\)"):
        credit.make(name).assign(wrong)


@pytest.mark.parametrize("name", [name for name in credit.names() if credit.make(name).needs])
@settings(max_examples=30)
@given(data=st.data())
def test_an_annotation_of_any_type_is_read_or_reported(name, data):
    scheme = credit.make(name)
    group = random_group(np.random.default_rng(1), values=scheme.needs, token_values=scheme.requires_tokens)
    first = group.trajectories[0]
    turn = first.turns[0]
    key = data.draw(st.sampled_from(sorted(turn.values)))
    values = {**turn.values, key: data.draw(JUNK)}
    member = replace(first, turns=(replace(turn, values=values), *first.turns[1:]))
    only_named_errors(scheme, Group((member, *group.trajectories[1:]), group.task))


@pytest.mark.parametrize("name", [name for name in credit.names() if credit.make(name).needs])
@pytest.mark.parametrize("number", [710, -710, 1e300, -1e300, 1.7e308, -1.7e308])  # e^710 is more than float64 holds
def test_an_annotation_of_any_size_is_read_or_reported(name, number):
    scheme = credit.make(name)
    group = random_group(np.random.default_rng(1), values=scheme.needs, token_values=scheme.requires_tokens)
    first = group.trajectories[0]
    for key in first.turns[0].values:
        turn = replace(first.turns[0], values={**first.turns[0].values, key: number})
        member = replace(first, turns=(turn, *first.turns[1:]))
        only_named_errors(scheme, Group((member, *group.trajectories[1:]), group.task))


@given(JUNK)
def test_a_reward_cost_or_score_is_a_finite_number_or_rejected(junk):
    group = random_group(np.random.default_rng(2))
    first = group.trajectories[0]
    good = isinstance(junk, int | float) and abs(junk) <= sys.float_info.max
    for name in ("reward", "cost"):
        try:
            replace(first, turns=(replace(first.turns[0], **{name: junk}), *first.turns[1:]))
            assert good
        except TrajectoryError:
            pass
    try:
        replace(first, score=junk)
        assert good
    except TrajectoryError:
        pass


@pytest.mark.parametrize(("number", "message"), [("0.5", "must be numbers, got '0.5'"), (float("nan"), "annotate")])
def test_a_value_that_is_not_a_number_is_reported(number, message):
    turn = Turn("a", "x", "b", values={"value.critic": number})
    first = Turn("b", "x", "c", values={"value.critic": 0.0})
    turns = (replace(first, state_key="s", next_state_key="a"), turn)
    group = Group((Trajectory("t", "g", "task", turns, False, 0.0, "env_limit", "b"),))
    with pytest.raises(CreditflowError, match=message):
        credit.make("mt_ppo").assign(group)
