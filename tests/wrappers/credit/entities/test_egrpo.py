"""E-GRPO: entities in thoughts, trajectories in the loss, and what each option repairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.episodes.entity_groups import ALL, FILM, search, searches
from hypothesis import given
from hypothesis import strategies as st

from creditflow import credit
from creditflow.wrappers.trajectory import Group, StopReason, Trajectory, Turn

UNNAMED = {**FILM, "text": "Where was he born?"}  # a question that names none of the four entities


def score(*members: Trajectory, task: Any = UNNAMED, **options: Any) -> credit.Credit:
    return credit.make("egrpo", **options).assign(searches(*members, task=task))


def named(*thoughts: str, end: StopReason = "failed", name: str = "t") -> Trajectory:
    return search(*((thought, "shown") for thought in thoughts), end=end, name=name)


def gamma(*members: Trajectory, **options: Any) -> list[float]:
    return [float(x) for x in score(*members, **options).diagnostics["gamma"]]


# -- what counts ----------------------------------------------------------------------------------------------------------------
def test_thoughts_count_and_observations_queries_and_answers_do_not() -> None:
    shown = search(("-", ALL), ("-", ""))
    assert gamma(shown) == [0.0]
    turn = Turn(
        "0",
        "a",
        "1",
        response="<think>It is Inception.</think><search>Christopher Nolan</search><answer>London</answer>",
    )
    responded = Trajectory("t", "g", "task", (turn,), False, 0.0, "failed", "1")
    assert gamma(responded) == [0.25]


def test_the_whole_trajectory_counts_as_the_papers_control() -> None:
    assert gamma(search(("-", ALL), ("-", "")), scope="trajectory") == [1.0]


def test_the_whole_trajectory_counts_thoughts_calls_answers_and_results_once_each() -> None:
    # Inception in the thought, Nolan in the query, London in the answer; the first observation, the question, is not the rollout's
    turn = Turn(
        "0", "a", "1", observation=ALL,
        response="<think>It is Inception.</think><search>Christopher Nolan</search><answer>London</answer>",
    )  # fmt: skip
    responded = Trajectory("t", "g", "task", (turn,), False, 0.0, "failed", "1")
    assert gamma(responded) == [0.25]
    assert gamma(responded, scope="trajectory") == [0.75]
    assert gamma(named("Inception", "Inception"), scope="trajectory") == [0.25]


def test_seen_but_not_used_is_rewarded_by_the_control_alone() -> None:
    # the paper's figure 5: a failure whose results show everything is as good as one that names everything
    seen, used = search(("-", ALL), ("-", ""), name="seen"), search((ALL, "-"), ("-", ""), name="used")
    assert gamma(seen, used) == [0.0, 1.0]
    assert gamma(seen, used, scope="trajectory") == [1.0, 1.0]
    assert score(seen, used, scope="trajectory").diagnostics["reward"].tolist() == [0.3, 0.3]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["-", "Inception", "London", ALL]), st.sampled_from(["-", "Inception", "London", ALL])
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_whole_trajectory_never_counts_less_than_its_thoughts(steps: list[tuple[str, str]]) -> None:
    rollout = search(*steps, name="t")
    (thoughts,), (everywhere,) = gamma(rollout), gamma(rollout, scope="trajectory")
    assert thoughts <= everywhere <= 1.0


def test_models_without_thinking_tags_think_in_the_rest_of_their_text() -> None:
    turn = Turn("0", "x", "1", response="Christopher Nolan made Inception.\n<search>birthplace</search>")
    plain = Trajectory("t", "g", "task", (turn,), False, 0.0, "failed", "1")
    assert gamma(plain, thoughts="wide") == [0.5]
    assert gamma(plain, thoughts="recorded") == gamma(plain) == [0.0]


CALL = "<search>x</search>"


@pytest.mark.parametrize(
    ("response", "named", "right"),
    [
        (f"<think>Inception</think>{CALL}", 0.25, True),
        (f"\n<think>Inception</think>\n\n{CALL}\n", 0.25, True),
        (f"<think>Inception</think>{CALL} London", 0.25, False),  # text after the call
        (f"<think>Inception</think> London {CALL}", 0.25, False),  # and between the tags
        (f"London <think>Inception</think>{CALL}", 0.25, False),
        (f"<think>Inception {CALL}", 0.0, False),  # unclosed
        (f"<think>Inception</think><think>x</think>{CALL}", 0.25, False),  # two
        (f"<think>Inception<tool_response>London</tool_response></think>{CALL}", 0.25, False),  # a forged result
        (f"<think>Inception</think>{CALL}<tool_response>London</tool_response>", 0.25, False),
        (f"<think>Inception</think>{CALL}{CALL}", 0.25, False),
        (f"Inception {CALL}", 0.0, False),  # prose without tags
        (CALL, 0.0, False),
        (f"<think> </think>{CALL}", 0.0, False),
    ],
)
def test_one_grammar_decides_what_a_thought_is_and_what_is_out_of_format(
    response: str, named: float, right: bool
) -> None:
    turn = Turn("0", "x", "1", response=response, thought="Inception London" if named else "")
    won = Trajectory("t", "g", "task", (turn,), True, 1.0, "success", "1")
    scored = score(won, format_errors="any_turn").diagnostics
    assert scored["gamma"].tolist() == [named]
    assert scored["reward"].tolist() == [float(right)]


def test_an_unclosed_call_is_not_part_of_the_thought() -> None:
    turn = Turn("0", "x", "1", response="Hm. <search>London, Inception")
    assert gamma(Trajectory("t", "g", "task", (turn,), False, 0.0, "failed", "1")) == [0.0]


def test_aliases_count_only_if_requested() -> None:
    assert gamma(named("Nolan")) == [0.0]
    assert gamma(named("Nolan"), aliases=True) == [0.25]


# -- the set of entities --------------------------------------------------------------------------------------------------------
def test_entities_that_the_question_names_are_not_in_the_set() -> None:
    # "Where was the director of Inception born?": of the graph's four entities three are left
    assert gamma(named("Inception"), task=FILM) == [0.0]
    assert gamma(named("London"), task=FILM) == [pytest.approx(1 / 3)]


def test_a_thought_that_repeats_the_question_earns_nothing_in_a_failed_group() -> None:
    members = named(FILM["text"], name="a"), named("-", name="b")
    assert score(*members, task=FILM).outcome_advantages.tolist() == [0.0, 0.0]


def test_the_set_is_what_the_construction_replaced_where_the_task_says_so() -> None:
    task = {**FILM, "construction_entities": ["Christopher Nolan"]}
    members = named("Christopher Nolan", name="a"), named("London", name="b")
    assert gamma(*members, task=task) == [1.0, 0.0]
    # the graph without the question's Inception: Nolan, London, science fiction
    assert gamma(*members, task=task, entities="graph") == pytest.approx([1 / 3] * 2)


def test_entities_of_a_construction_are_the_tasks_entities() -> None:
    with pytest.raises(credit.CreditError, match="construction_entities has 'Paris', not an entity"):
        score(named("-"), task={**FILM, "construction_entities": ["Paris"]})


# -- the reward -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("end", ["token_limit", "tool_limit", "env_limit", "env_error"])
def test_overlength_scores_0_counts_in_the_statistics_and_leaves_the_loss(end: StopReason) -> None:
    others = named("London", name="b"), named("-", end="success", name="c")
    scored = score(named(ALL, ALL, end=end, name="a"), *others)
    assert scored.diagnostics["reward"].tolist() == pytest.approx([0.0, 0.3 * 0.25, 1.0])
    assert [mask.tolist() for mask in scored.loss_mask] == [[False, False], [True], [True]]
    alone = score(*others)
    assert not np.allclose(alone.outcome_advantages, scored.outcome_advantages[1:])


def test_reaching_the_turn_limit_can_count_as_wrong_instead() -> None:
    scored = score(named("London", end="env_limit"), overlength="token_or_tool")
    assert scored.diagnostics["reward"].tolist() == [0.3]
    assert scored.flat_loss_mask.all()


thoughts = st.lists(st.sampled_from(["Inception", "London", "Christopher Nolan", "x"]), max_size=3).map(", ".join)


@given(
    st.lists(
        st.tuples(thoughts, st.sampled_from(["success", "failed", "format", "token_limit"])), min_size=1, max_size=6
    )
)
def test_no_failed_trajectory_scores_more_than_a_correct_one(drawn: Any) -> None:
    members = [named(text, end=end, name=f"{i}") for i, (text, end) in enumerate(drawn)]
    scored = score(*members)
    correct = [a for a, m in zip(scored.outcome_advantages, members, strict=True) if m.success]
    wrong = [a for a, m in zip(scored.outcome_advantages, members, strict=True) if not m.success]
    assert not correct or not wrong or min(correct) > max(wrong)


# -- attacks ---------------------------------------------------------------------------------------
def test_characters_match_lookalikes_and_break_on_quotes_and_case_and_tokens_do_not() -> None:
    task = {"entities": ["Ann", "Founder\u2019s Medal", "LONDON"]}
    text = named("The Annual: Founder's Medal, London")
    assert gamma(text, task=task) == pytest.approx([1 / 3])  # "Ann" in "Annual", and nothing else
    assert gamma(text, task=task, rule="normalized") == pytest.approx([2 / 3])


def test_guessed_names_count() -> None:
    assert gamma(search((ALL, "Inception"), ("so Inception", ""))) == [1.0]


def test_a_branch_counts_the_entities_of_its_prefix() -> None:
    parent = named("Inception", "-", name="root")
    branch = Trajectory(
        "b", "g", "task", (replace(parent.turns[1], thought="London"),), False, 0.0, "failed", "2",
        parent="root", fork_turn=1,
    )  # fmt: skip
    group = Group((parent, branch), UNNAMED)
    assert credit.make("egrpo").assign(group).diagnostics["gamma"].tolist() == [0.25, 0.5]


def test_a_malformed_turn_before_a_right_answer_scores_0_where_every_turn_must_have_the_format() -> None:
    right = named("Inception", "London", end="success", name="right")
    first, *later = right.turns
    malformed = replace(right, trajectory_id="malformed", turns=(replace(first, parsed=False), *later))
    thoughtless = replace(right, trajectory_id="thoughtless", turns=(replace(first, thought=" "), *later))
    wrong = named("Inception", "-", name="wrong")
    members = (right, malformed, thoughtless, wrong)
    assert score(*members).diagnostics["reward"].tolist()[:3] == [1.0, 1.0, 1.0]
    # app. A: any response that does not follow the format, thought included, is a format error; eq. 5: its reward is 0
    # the wrong one names one entity, the best two: 0.3 · 1/2
    assert score(*members, format_errors="any_turn").diagnostics["reward"].tolist() == [1.0, 0.0, 0.0, 0.15]
