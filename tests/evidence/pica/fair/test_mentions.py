"""Condensed episodes: the sentence that mentioned a name last, with no word replaced."""

from __future__ import annotations

import pytest
from evidence.pica.fair.mentions import WHOLE, acted_name, condensed, mention
from hypothesis import given
from hypothesis import strategies as st

from creditflow.wrappers.trajectory import Turn

QUESTION = "Question: Who founded the library of Elm?"
PAGE = "Page: Elm\n[1] Elm: Elm is a town. The library was founded by Ann Oak.\n[2] Elm: It lies on the Ash.\n\nNote: the end."


@pytest.mark.parametrize(
    ("name", "seen", "found"),
    [
        ("Ann Oak", [QUESTION, PAGE], "Elm: The library was founded by Ann Oak."),
        ("ann oak", [QUESTION, PAGE], "Elm: The library was founded by Ann Oak."),
        ("Ash", [QUESTION, PAGE], "Elm: It lies on the Ash."),
        ("Elm", [QUESTION], QUESTION),
        ("Ann", [QUESTION, "[1] Anna: Annabel is a name."], ""),  # whole words only
        ("Oak", [QUESTION, "[1] Oak: A tree."], "Oak:"),  # titles alone
        ("Who founded the library of Elm?", [QUESTION, PAGE], WHOLE),
        ("unknown", [QUESTION, PAGE], ""),
        ("the end", [QUESTION, PAGE], ""),  # a note is no sentence of a passage
    ],
)
def test_a_mention_is_the_first_sentence_of_the_last_observation_with_the_name(name, seen, found) -> None:
    assert mention(name, seen) == found


def test_a_later_observation_replaces_an_earlier_one() -> None:
    later = "[1] Ann Oak: Ann Oak was a printer."
    assert mention("Ann Oak", [QUESTION, PAGE, later]) == "Ann Oak: Ann Oak was a printer."


@given(st.lists(st.sampled_from(["Ann Oak", "Ash", "Elm", "unknown"]), min_size=1, max_size=5))
def test_a_condensed_turn_reads_only_what_was_read_before_its_action(names) -> None:
    texts = [QUESTION, PAGE, *["[1] Ash: The Ash is a river."] * 3]
    turns = [Turn(f"s{t}", f"search: {n}", f"s{t + 1}", observation=texts[t]) for t, n in enumerate(names)]
    short = condensed(turns)
    assert short[0].observation == QUESTION
    for t, turn in enumerate(short[1:], 1):
        sentence = turn.observation.partition(": ")[2]
        assert turn.observation in ("unread", QUESTION) or any(sentence in text for text in texts[: t + 1])
        assert turn.action == turns[t].action
        assert acted_name(turn.action) in turn.observation or turn.observation == "unread"
    assert condensed(turns[:1]) == short[:1]  # later turns change nothing
