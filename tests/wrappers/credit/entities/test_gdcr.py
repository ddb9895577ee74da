"""GDCR: which texts count as thoughts and evidence, what holds for all inputs, and what each option repairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.entity_groups import ALL, FILM, built, entity_groups, score, search, searches
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.credit import CreditError
from creditflow.wrappers.trajectory import Group, Trajectory, Turn


def rewards(*rows: tuple[str, str], **options: Any) -> list[float]:
    return [float(x) for x in score("gdcr", searches(search(*rows)), **options).flat_step_rewards]


# -- thoughts and evidence ----------------------------------------------------------------------------------------------------
def test_queries_and_answers_are_not_thoughts() -> None:
    shown = Turn("0", "a", "1", observation="q", response="<search>x</search>")
    last = Turn("1", "a", "2", observation=ALL, response="So. <search>Nolan</search> <answer>London</answer>")
    group = Group((Trajectory("t", "g", "task", (shown, last), False, 0.0, "failed", "2"),), FILM)
    assert score("gdcr", group).flat_step_rewards.tolist() == [1.875, 0.0]
    outside = replace(last, response="Nolan was born in London. <answer>London</answer>")
    group = Group((replace(group.trajectories[0], turns=(shown, outside)),), FILM)
    assert score("gdcr", group, thoughts="wide").flat_step_rewards.tolist() == [1.875, 1.5]
    assert score("gdcr", group, thoughts="recorded").flat_step_rewards.tolist() == [1.875, 0.0]


@pytest.mark.parametrize("scheme", ["gdcr", "sapo"])
@pytest.mark.parametrize(
    ("response", "cited", "right"),
    [
        ("<think>Nolan</think><answer>x</answer>", ("Christopher Nolan",), True),
        ("<think>Nolan</think> London <answer>x</answer>", ("Christopher Nolan",), False),
        ("<think>Nolan</think><answer>x</answer> London", ("Christopher Nolan",), False),
        ("London <think>Nolan</think><answer>x</answer>", ("Christopher Nolan",), False),
        ("<think>Nolan</think><think>x</think><answer>x</answer>", ("Christopher Nolan",), False),
        ("<think>Nolan <answer>x</answer>", (), False),
        ("Nolan <answer>x</answer>", (), False),
        ("<think>x<tool_response>Nolan</tool_response></think><answer>x</answer>", (), False),
    ],
)
def test_thoughts_and_formats_are_those_of_the_grammar(
    scheme: str, response: str, cited: tuple[str, ...], right: bool
) -> None:
    first = Turn("0", "a", "1", observation="q", response="<think>x</think><search>x</search>")
    last = Turn("1", "a", "2", observation=ALL, response=response)
    won = Trajectory("t", "g", "task", (first, last), True, 1.0, "success", "2")
    lost = replace(
        won, trajectory_id="u", turns=(first,), success=False, score=0.0, stop_reason="failed", final_state_key="1"
    )
    scored = score(scheme, Group((won, lost), FILM), format_errors="any_turn")
    assert scored.diagnostics["cited"][1] == cited
    assert (scored.outcome_advantages[0] > 0.0) == right


def test_a_query_repeated_in_the_observation_is_not_evidence() -> None:
    rows = [("-", "Results for: London\nnothing found"), ("-", "")]
    group = searches(search(*rows, queries=["London"]))
    assert score("gdcr", group).flat_step_rewards.tolist() == [0.0, 0.0]
    found = [("-", "Results for: London\nLondon: a city"), ("-", "")]
    assert score("gdcr", searches(search(*found, queries=["London"]))).flat_step_rewards.tolist() == [1.0, 0.0]


def test_a_branch_continues_from_the_entities_seen_by_its_parent() -> None:
    parent = search(("-", "Nolan"), ("-", "London"), ("-", ""), name="root")
    own = (replace(parent.turns[1], thought="Nolan"), replace(parent.turns[2], observation="London"))
    branch = Trajectory("b", "g", "task", own, False, 0.0, "failed", "3", parent="root", fork_turn=1)
    scored = score("gdcr", searches(parent, branch))
    assert scored.step_rewards[0].tolist() == [0.5, 1.0, 0.0]
    assert scored.step_rewards[1].tolist() == [0.5 + 1.0, 0.0]


# -- for all inputs ------------------------------------------------------------------------------------------------------------
@given(entity_groups)
def test_each_entity_is_rewarded_at_most_twice(drawn: Any) -> None:
    group = built(drawn)
    scored = score("gdcr", group)
    for part in ("cited", "retrieved"):
        for span in group.arrays.split(np.arange(len(group.turns))):
            names = [name for t in span for name in scored.diagnostics[part][t]]
            assert len(names) == len(set(names))
    total = 0.25 + 0.5 + 1.0 + 0.125  # contributions of the four entities
    assert all(own.sum() <= 2 * total + 1e-12 for own in scored.step_rewards)


@given(entity_groups, st.randoms(use_true_random=False))
def test_the_order_of_rollouts_entities_and_edges_does_not_matter(drawn: Any, random: Any) -> None:
    group = built(drawn)
    order = random.sample(range(len(group)), len(group))
    task = {key: random.sample(v, len(v)) if key in ("entities", "edges") else v for key, v in FILM.items()}
    other = Group(tuple(group.trajectories[i] for i in order), task)
    for name in ("gdcr", "sapo"):
        before, after = score(name, group), score(name, other)
        for place, i in enumerate(order):
            np.testing.assert_allclose(after.advantages[place], before.advantages[i], atol=1e-12)


@given(entity_groups)
def test_an_entity_that_is_not_mentioned_changes_nothing(drawn: Any) -> None:
    more = {
        **FILM,
        "entities": [*FILM["entities"], "Karl Weyprecht"],
        "edges": [*FILM["edges"], ["Karl Weyprecht", "r", "London"]],
    }
    for name in ("gdcr", "sapo", "egrpo"):
        with_it, without = score(name, built(drawn, more)), score(name, built(drawn))
        np.testing.assert_allclose(with_it.flat_advantages, without.flat_advantages, atol=1e-12)


def test_a_trajectory_of_one_turn_has_no_step_part() -> None:
    group = searches(search(("-", "London"), name="a"), search(("-", "Nolan"), name="b", end="success"))
    for std_kind in ("population", "sample"):
        scored = score("sapo", group, std_kind=std_kind, observations="entities")
        assert (scored.flat_step_advantages == 0.0).all()
        assert np.isfinite(scored.flat_advantages).all()


def test_a_format_error_scores_0_whatever_the_rewards() -> None:
    broken = replace(search(("-", "x"), ("-", ""), name="a", end="format"), score=0.7)
    group = searches(broken, replace(search(("-", "x"), ("-", ""), name="b"), score=0.7))
    assert score("sapo", group, outcome="score").outcome_advantages.tolist() == [-1.0, 1.0]


# -- the graph -----------------------------------------------------------------------------------------------------------------
def test_directed_paths_go_from_subject_to_object() -> None:
    row = ("-", "Science Fiction and Inception")
    assert rewards(row, ("-", "")) == [0.125 + 0.25, 0.0]
    assert rewards(row, ("-", ""), directed=True) == [0.25, 0.0]


def test_entities_of_the_question_are_rewarded() -> None:
    assert rewards(("-", "Inception, London"), ("-", "")) == [1.25, 0.0]


COMPARISON = {
    "entities": ["A", "B", "1901", "1888"],
    "edges": [["A", "born", "1901"], ["B", "born", "1888"]],
    "answer_node": "",
    "answers": ["no"],
    "text": "Is A older than B?",
}


def test_an_answer_that_is_not_an_entity_is_rejected_added_as_a_node_or_gets_no_step_credit() -> None:
    group = searches(search(("-", "A, 1901, no"), ("-", "")), task=COMPARISON)
    with pytest.raises(
        CreditError, match=r"gdcr is not applicable to group 'g': its answer is not an entity.*answer='virtual'"
    ):
        score("gdcr", group)
    # the values lie one edge from the answer, the entities that have them two; "no" itself is in every text and is not matched
    assert score("gdcr", group, answer="virtual").flat_step_rewards.tolist() == [0.5 + 0.25, 0.0]
    zero = score("gdcr", group, answer="zero")
    assert (zero.flat_step_rewards == 0.0).all()
    assert (zero.flat_step_advantages == 0.0).all()


@pytest.mark.parametrize("name", ["gdcr", "sapo", "egrpo"])
def test_a_group_without_entities_is_rejected_with_what_it_needs(name: str) -> None:
    group = Group((search(("-", "x"), ("-", "")),))
    scheme = credit.make(name)
    assert scheme.undefined_on(group)
    with pytest.raises(
        CreditError, match=f"{name} is not applicable to group 'g': the task lacks 'entities'.*WikiSearch"
    ):
        scheme.assign(group)


def test_a_log_without_observations_is_rejected_with_what_to_do() -> None:
    with pytest.raises(CreditError, match=r"no observations.*observations='entities'"):
        credit.make("gdcr").assign(searches(search(("-", ""), ("-", ""))))


@pytest.mark.parametrize(
    "task",
    [
        {**FILM, "edges": [["Inception", "r", "Unlisted"]]},
        {**FILM, "entities": ["A", "A"]},
        {**FILM, "entities": [3]},
        {**FILM, "entities": {"A": 1}},
        {**FILM, "answer_node": "Unlisted"},
    ],
)
def test_a_malformed_graph_is_rejected_with_the_group(task: Any) -> None:
    with pytest.raises(CreditError, match="group 'g': entity graph: "):
        score("gdcr", searches(search(("-", "x"), ("-", "")), task=task))


# -- attacks -----------------------------------------------------------------------------------
def test_citing_many_entities_is_rewarded_in_full() -> None:
    spray, honest = (ALL, ""), ("Nolan was born in London", "")
    assert rewards(("-", ALL), spray)[1] == 1.875
    assert rewards(("-", ALL), honest)[1] == 1.5


def test_copied_titles_are_rewarded_in_full() -> None:
    copied, honest = ("London. Nolan.", ""), ("I read that Nolan, who made the film, was born in London", "")
    assert rewards(("-", ALL), copied)[1] == rewards(("-", ALL), honest)[1] == 1.5


def test_lookalikes_are_not_mentions_under_the_token_rule() -> None:
    task = {**FILM, "entities": ["Ann", "London"], "edges": [["Ann", "r", "London"]]}
    group = searches(search(("-", "the Annual of Londonderry"), ("-", "")), task=task)
    assert score("gdcr", group).flat_step_rewards[0] == 0.0
    assert score("gdcr", group, rule="exact_substring").flat_step_rewards[0] == 1.5


def test_inflections_match_only_where_they_are_aliases() -> None:
    def task(*aliases: str) -> dict[str, Any]:
        return {
            **FILM,
            "entities": [{"name": "South Korea", "aliases": aliases}],
            "edges": [],
            "answer_node": "South Korea",
        }

    rows = [("-", "a South Korean film"), ("-", "")]
    assert score("gdcr", searches(search(*rows), task=task())).flat_step_rewards[0] == 0.0
    assert score("gdcr", searches(search(*rows), task=task("South Korean"))).flat_step_rewards[0] == 1.0
