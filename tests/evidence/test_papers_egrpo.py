"""Match rates in thoughts and in whole trajectories, worked out by hand; the sign test against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.papers import BINS, NotDefinedError, bins, match_rates
from helpers.episodes.search_logs import TASK, question, rollout


def test_entities_named_in_thoughts_count_and_retrieved_ones_do_not():
    thinks = rollout("thinks", [("Nolan made Inception", "x")], True, answer="so London")
    sees = rollout("sees", [("", "Inception, Nolan, London, Paris")], False)
    numbers = match_rates([question(thinks, sees)]).numbers
    assert numbers["thoughts"]["correct"]["rate"] == 0.75
    assert numbers["thoughts"]["incorrect"]["rate"] == 0.0
    assert numbers["trajectory"]["incorrect"]["rate"] == 1.0
    assert (numbers["thoughts"]["correct_higher"], numbers["trajectory"]["incorrect_higher"]) == (1, 1)


def test_rates_are_normalised_by_the_groups_best():
    half = rollout("half", [("Nolan", "x")], False)
    full = rollout("full", [("Nolan, London", "x")], True)
    found = match_rates([question(half, full)]).numbers["thoughts"]
    assert found["incorrect"]["normalised"] == 0.5
    assert found["incorrect"]["histogram"]["(¼, ½]"] == 1
    assert found["correct"]["histogram"]["1"] == 1


def test_the_default_rule_matches_the_exact_phrase():
    lower = rollout("lower", [("nolan", "London")], True)
    assert match_rates([question(lower)]).numbers["thoughts"]["correct"]["rate"] == 0.0
    assert match_rates([question(lower)], match="normalized").numbers["thoughts"]["correct"]["rate"] == 0.25


def test_only_questions_with_both_outcomes_are_compared():
    right, wrong = rollout("r", [("Nolan", "x")], True), rollout("w", [("Nolan", "x")], False)
    found = match_rates([question(right, wrong), question(right)]).numbers["thoughts"]
    assert (found["questions"], found["equal"]) == (1, 1)
    assert np.isnan(found["sign_test_p"])


def test_every_rate_has_one_bin_and_the_end_points_have_their_own():
    rates = np.array([0.0, 0.01, 0.25, 0.26, 0.5, 0.75, 0.76, 0.99, 1.0])
    assert dict(zip(BINS, bins(rates).tolist(), strict=True)) == {
        "0": 1, "(0, ¼]": 2, "(¼, ½]": 2, "(½, ¾]": 1, "(¾, 1)": 2, "1": 1,
    }  # fmt: skip


def test_a_log_without_thoughts_is_compared_by_whole_trajectories_with_a_note():
    found = match_rates([question(rollout("r", [("", "Nolan")], True, answer=""))])
    assert "thoughts" not in found.numbers
    assert any("no thoughts" in note for note in found.notes)


def test_the_error_names_what_the_log_lacks():
    with pytest.raises(NotDefinedError, match="no entities at all"):
        match_rates([question(rollout("r", [("Nolan", "x")], True), task={})])
    with pytest.raises(NotDefinedError, match="texts"):
        match_rates([question(rollout("r", [("a", "x")], True), task=TASK)])
