"""Retrieved entities that are never used, on rollouts worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.episodes.search_logs import TASK, question, rollout
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.train.analyses.finding import NotDefined
from creditflow.train.analyses.uncited import analyse, draw, read_group
from creditflow.wrappers.graphs.entity_graph import EntityGraph

GRAPH = EntityGraph.from_task(TASK)
NAMES = ("Inception", "Nolan", "London", "Paris")
# shows Inception, Nolan (cited next) and London (cited last)
RIGHT = rollout("right", [("", "Inception by Nolan"), ("Nolan then", "London")], True, answer="it is London")
# shows the same three and Paris; names London before it is shown, and nothing afterwards
WRONG = rollout("wrong", [("London perhaps", "Inception by Nolan"), ("", "London, Paris")], False)


def test_an_entity_is_cited_only_by_a_thought_after_its_retrieval():
    right, _ = read_group(question(RIGHT), GRAPH)
    assert right.distance.tolist() == [2, 1, 0]  # Inception, Nolan, London
    assert right.cited.tolist() == [False, True, True]
    wrong, thinks = read_group(question(WRONG), GRAPH)
    assert wrong.distance.tolist() == [2, 1, 0, 4]
    assert not wrong.cited.any()
    assert thinks


def test_shares_are_of_retrieved_entities_by_outcome_and_distance():
    found = analyse([question(RIGHT, WRONG)]).numbers
    shares = {name: (row["retrieved"], row["uncited"]["share"]) for name, row in found["by_outcome"].items()}
    assert shares == {"all": (7, 5 / 7), "correct": (3, 1 / 3), "incorrect": (4, 1.0)}
    assert [row["all"]["share"] for row in found["by_distance"]][:3] == [0.5, 0.5, 1.0]
    assert [row["retrieved"] for row in found["by_distance"]] == [2, 2, 2, 0, 1]
    assert np.isnan(found["by_distance"][3]["all"]["share"])
    assert found["by_group"] == [{"group": "g", "retrieved": 7, "uncited": 5, "unused": 5}]
    assert found["incorrect_minus_correct"]["uncited"]["mean"] == pytest.approx(2 / 3)


def test_the_answer_uses_an_entity_without_citing_it():
    silent = rollout("silent", [("think", "London")], True)
    last = silent.turns[-1]
    silent = replace(
        silent, turns=(*silent.turns[:-1], replace(last, action="answer: London", response="<answer>London</answer>"))
    )
    row = analyse([question(silent)]).numbers["by_outcome"]["all"]
    assert (row["uncited"]["share"], row["unused"]["share"]) == (1.0, 0.0)


def test_what_an_unanswered_rollout_searched_last_is_not_its_answer():
    cut = rollout("cut", [("think", "London")], False)
    last = replace(cut.turns[-1], action="search: London")
    cut = replace(cut, turns=(*cut.turns[:-1], last), stop_reason="env_limit")
    row = analyse([question(cut)]).numbers["by_outcome"]["all"]
    assert (row["uncited"]["share"], row["unused"]["share"]) == (1.0, 1.0)


def test_a_share_that_rests_on_one_question_has_no_interval():
    found = analyse([question(RIGHT, WRONG), question(WRONG)]).numbers["by_outcome"]
    assert np.isnan([found["correct"]["uncited"]["low"], found["correct"]["uncited"]["high"]]).all()
    assert found["all"]["uncited"]["low"] <= found["all"]["uncited"]["share"] <= found["all"]["uncited"]["high"]


def test_a_log_without_thoughts_or_entities_is_not_analysed():
    mute = rollout("mute", [("", "London")], True, answer="")
    with pytest.raises(NotDefined, match="needs thoughts"):
        analyse([question(mute)])
    blind = rollout("blind", [("think", "nothing")], True)
    with pytest.raises(NotDefined, match="no observation shows an entity"):
        analyse([question(blind)])
    with pytest.raises(NotDefined, match="needs an entity graph with an answer node"):
        analyse([question(RIGHT, task={"text": "?"})])


def test_the_plot_is_drawn_with_and_without_intervals(tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the 'bench' extra")
    for groups in ([question(RIGHT, WRONG)], [question(RIGHT, WRONG), question(WRONG)], [question(RIGHT)]):
        assert draw(analyse(groups), tmp_path).read_bytes().startswith(b"\x89PNG")
        assert "Uncited among retrieved" in str(analyse(groups))


def test_a_question_without_an_answer_node_is_left_out_and_counted():
    found = analyse([question(RIGHT), question(WRONG, task={**TASK, "answer_node": ""})])
    assert (found.numbers["groups"], found.numbers["groups_left_out"]) == (1, 1)
    assert "left out: 1 groups" in str(found)


texts = st.lists(st.sampled_from((*NAMES, "nothing")), max_size=3).map(" ".join)
members = st.tuples(st.lists(st.tuples(texts, texts), min_size=1, max_size=4), st.booleans(), texts)


@settings(max_examples=60, deadline=None)
@given(st.lists(members, min_size=1, max_size=4))
def test_an_entity_is_uncited_exactly_if_no_later_thought_names_it(drawn):
    rollouts = [rollout(f"r{i}", steps, won, answer=answer) for i, (steps, won, answer) in enumerate(drawn)]
    part, _ = read_group(question(*rollouts), GRAPH)
    expected = []
    for steps, _, answer in drawn:
        thoughts = [thought for thought, _ in steps] + [answer]
        for name in NAMES:
            shown = [t for t, (_, text) in enumerate(steps) if name in text]
            if shown:
                expected.append(any(name in thought for thought in thoughts[shown[0] + 1 :]))
    assert part.cited.tolist() == expected
    assert (part.used | ~part.cited).all()


@settings(max_examples=15, deadline=None)
@given(st.lists(members, min_size=2, max_size=4), st.integers(2, 4))
def test_repeating_every_question_keeps_the_shares_and_intervals_contain_them(drawn, times):
    rollouts = [rollout(f"r{i}", [("so", "Nolan"), *steps], won, answer=a) for i, (steps, won, a) in enumerate(drawn)]
    once, often = (analyse([question(*rollouts)] * n).numbers["by_outcome"] for n in (1, times))
    for name in once:
        assert often[name]["retrieved"] == times * once[name]["retrieved"]
        for kind in ("uncited", "unused"):
            one, many = once[name][kind], often[name][kind]
            np.testing.assert_allclose(many["share"], one["share"])
            assert np.isnan(one["low"])
            if not np.isnan(many["share"]):
                # equal questions do not vary
                np.testing.assert_allclose([many["low"], many["high"]], many["share"])
