"""StepSearch: worked examples, invariants of its parts, and what the options repair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.credit.entities.stepsearch import (
    GoldenPassages,
    information_gains,
    redundancies,
    search_key_score,
)
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

TEXTS = {
    "nile": "The Nile flows through Egypt to the sea",
    "rhine": "The Rhine flows through Germany",
    "other": "A violin concerto in minor",
}
TASK: dict[str, Any] = {
    "supporting": ["nile", "rhine"],
    "documents": {name: {"title": name.title(), "text": text} for name, text in TEXTS.items()},
    "steps": [
        {"question": "Which river flows through Egypt?", "answer": "Nile"},
        {"question": "Where does the #1 end?", "answer": "sea"},
    ],
}


def rollout(
    name: str, found: list[tuple[str, ...]], end: StopReason = "success", queries: tuple[str, ...] = ()
) -> Trajectory:
    padded = [*queries, *[""] * (len(found) - len(queries))]
    turns = [
        Turn(f"{t}", "search", f"{t + 1}", doc_ids=ids, queries=(query,) if query else ())
        for t, (ids, query) in enumerate(zip(found, padded, strict=True))
    ]
    last = len(turns)
    if end in ("success", "failed"):
        turns.append(Turn(f"{last}", "answer", end))
    won = end == "success"
    return Trajectory(name, "g", "task", tuple(turns), won, float(won), end, turns[-1].next_state_key)


def group(*members: Trajectory, task: Any = TASK) -> Group:
    return Group(members, task)


def plain(**options: Any) -> credit.Scheme:
    return credit.make("stepsearch", **{"key_weight": 0.0, "step_weight": 1.0, **options})


# -- the parts ----------------------------------------------------------------------------------------------------------
def test_finding_a_golden_passage_itself_is_a_full_match_and_only_once():
    golden = GoldenPassages([TEXTS["nile"], TEXTS["rhine"]])
    assert golden.match(TEXTS["nile"])[0] == pytest.approx(1.0)
    first, again = information_gains([[TEXTS["nile"]], [TEXTS["nile"]]], golden)
    assert first > 0.5
    assert again == 0.0


def test_tfidf_of_one_shared_word_is_worked_out_by_hand():
    # n = 2 documents; "shared" in both: idf 1; the others in one: idf 1 + ln 1.5
    rare = 1.0 + np.log(1.5)
    expected = 1.0 / (1.0 + rare**2)
    assert GoldenPassages(["shared golden"]).match("shared found")[0] == pytest.approx(expected)


def test_words_of_one_letter_and_articles_are_ignored():
    assert not GoldenPassages(["the a b c"]).match("the b c").any()


def test_gains_sum_to_the_mean_best_match_whatever_the_order():
    golden = GoldenPassages([TEXTS["nile"], TEXTS["rhine"]])
    best = np.maximum.reduce([golden.match(text) for text in TEXTS.values()]).mean()
    for order in (["nile", "rhine", "other"], ["other", "rhine", "nile"]):
        assert information_gains([[TEXTS[name]] for name in order], golden).sum() == pytest.approx(best)


WORDS = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "x", "the"]), max_size=6).map(" ".join)


@given(st.lists(st.lists(WORDS, max_size=3), max_size=5), st.lists(WORDS, min_size=1, max_size=3))
def test_gains_and_redundancies_are_fractions(steps, golden):
    gains = information_gains(steps, GoldenPassages(golden))
    assert (gains >= 0.0).all()
    assert gains.sum() <= 1.0 + 1e-9
    for repeats in ("earlier", "anywhere"):
        fractions = redundancies(steps, repeats=repeats)
        assert ((fractions >= 0.0) & (fractions <= 1.0)).all()
    assert (redundancies(steps) <= redundancies(steps, repeats="anywhere")).all()


def test_a_copy_within_one_step_is_redundant_in_the_released_code_only():
    assert redundancies([["a", "a"], ["a", "b"]]).tolist() == [0.0, 0.5]
    assert redundancies([["a", "a"], ["a", "b"]], repeats="anywhere").tolist() == [0.5, 0.5]


def test_a_later_worse_query_replaces_a_better_one_in_the_released_code_only():
    keys = [["river in egypt"], ["capital of france"]]
    queries = ["river in egypt", "river"]
    assert search_key_score(queries, keys) == pytest.approx(0.5)
    assert search_key_score(queries, keys, pairing="last") == pytest.approx(0.25)


@given(st.lists(WORDS, max_size=4), st.lists(st.lists(WORDS, min_size=1, max_size=2), max_size=3), WORDS)
def test_another_query_never_lowers_the_papers_key_score(queries, keys, more):
    assert search_key_score([*queries, more], keys) >= search_key_score(queries, keys)


# -- the scheme -----------------------------------------------------------------------------------------------------------
def test_step_rewards_are_gain_minus_redundancy_and_zero_for_the_answer():
    scored = plain().assign(group(rollout("a", [("nile",), ("nile",), ("rhine",)])))
    gains = information_gains(
        [[TEXTS[name]] for name in ("nile", "nile", "rhine")], GoldenPassages([TEXTS["nile"], TEXTS["rhine"]])
    )
    np.testing.assert_allclose(scored.step_rewards[0], [gains[0], -1.0, gains[2], 0.0])


def test_credit_is_the_return_to_go_against_the_groups_mean_at_that_turn():
    g = group(rollout("a", [("nile",), ("rhine",)]), rollout("b", [("other",), ("other",)]))
    scored = plain().assign(g)
    to_go = [np.cumsum(rewards[::-1])[::-1] for rewards in scored.step_rewards]
    for mine, theirs, got in zip(to_go, to_go[::-1], scored.step_advantages, strict=True):
        np.testing.assert_allclose(got, (mine - theirs) / 2, atol=1e-12)


def test_query_keys_enter_the_outcome_with_answers_filled_in():
    good = rollout("good", [("nile",)], "failed", queries=("Where does the Nile end?",))
    bad = rollout("bad", [("nile",)], "failed", queries=("violin",))
    scored = credit.make("stepsearch").assign(group(good, bad))
    keys = scored.diagnostics["search_key_score"]
    assert keys[0] == 0.5  # one of two sub-questions, word for word
    assert keys[1] == 0.0
    assert scored.outcome_advantages[0] > 0.0 > scored.outcome_advantages[1]


def test_an_unanswered_trajectory_gets_minus_one_and_no_step_rewards_in_the_released_code():
    g = group(rollout("a", [("nile",)], "env_limit"), rollout("b", [("nile",)], "failed"))
    assert plain().assign(g).step_rewards[0][0] > 0.0
    released = credit.make("stepsearch", semantics="release", key_weight=0.0).assign(g)
    assert not released.step_rewards[0].any()
    assert released.outcome_advantages[0] < released.outcome_advantages[1]


def test_golden_passages_may_be_named_by_title():
    by_title = {**TASK, "supporting": ["Nile", "Rhine"]}
    members = (rollout("a", [("nile",)]), rollout("b", [("other",)]))
    expected = plain().assign(group(*members)).flat_step_rewards
    np.testing.assert_array_equal(plain().assign(group(*members, task=by_title)).flat_step_rewards, expected)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({}, "the task lacks 'supporting', 'documents'"),
        ({**TASK, "supporting": []}, "no golden passages"),
        ({**TASK, "supporting": ["elbe"]}, "contains no golden passage"),
        ({**TASK, "documents": {"nile": {"title": "Nile", "text": "x"}}}, "lacks the retrieved passage 'other'"),
        ({**TASK, "steps": []}, "key_weight=0"),
    ],
)
def test_what_the_task_lacks_is_named(task, message):
    with pytest.raises(CreditError, match=message):
        credit.make("stepsearch").assign(group(rollout("a", [("other",)]), task=task))


def test_search_keys_take_precedence_over_sub_questions():
    task = {**TASK, "search_keys": [["violin"]]}
    scored = credit.make("stepsearch").assign(group(rollout("a", [("nile",)], queries=("violin",)), task=task))
    assert scored.diagnostics["search_key_score"].tolist() == [1.0]
