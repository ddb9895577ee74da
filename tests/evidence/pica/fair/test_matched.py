"""Matched pairs: whatever reads recency alone cannot tell their turns apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from evidence.pica.fair.matched import Pair, matched_pair, recency
from evidence.pica.fair.rivals import turn_features
from evidence.pica.fair.states import ForkedTurn
from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.statistics import auroc

READ = [
    "Where was the founder of Elm born?",
    "[1] Elm: It was founded by Ann. It lies on the Ash. Bob and Carl lived there. Old Ann slept.",
]
LISTED = ["answer: Ann", "search: Ann", "search: Ash", "search: Bob", "search: Carl", "search: Elm", "visit: Ash"]


STATED = {"Elm": frozenset({"ann", "ash", "bob", "carl"})}
DID = ["search: Elm"]


def pairs_of(
    optimal: str,
    listed: Sequence[str] = LISTED,
    stated: Mapping[str, frozenset[str]] = STATED,
    acted: Sequence[str] = DID,
) -> set[Pair | None]:
    return {matched_pair(READ, acted, listed, [optimal], stated, np.random.default_rng(i)) for i in range(40)}


def test_the_other_call_was_read_in_the_same_turn_with_the_same_tool_in_another_sentence() -> None:
    found = [pair for pair in pairs_of("search: Ann") if pair]
    assert {pair.wrong for pair in found} == {"search: Ash", "search: Bob", "search: Carl"}
    for pair in found:
        assert recency(pair.right, READ, DID) == recency(pair.wrong, READ, DID) == pair.recency
    # Elm was read in the question too, "visit" is another tool, Bob and Carl share a sentence
    assert {pair.wrong for pair in pairs_of("search: Bob") if pair} == {"search: Ann", "search: Ash"}


def test_a_sentence_that_states_no_relation_gives_no_pair() -> None:
    stated = {"Elm": frozenset({"ann", "ash"})}
    assert {pair.wrong for pair in pairs_of("search: Ann", stated=stated) if pair} == {"search: Ash"}
    assert pairs_of("search: Ann", stated={"Oak": STATED["Elm"]}) == {None}


def test_a_state_without_an_equally_recent_call_has_no_pair() -> None:
    assert pairs_of("search: Elm") == {None}
    assert pairs_of("answer: Ann") == {None}
    assert pairs_of("search: Ann", ["search: Ann", "search: Ash"], acted=["search: Ann"]) == {None}


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=20), st.integers(0, 2**32))
def test_any_score_of_recency_and_turn_alone_has_an_auc_of_one_half(pairs, seed) -> None:
    about = recency("search: Ann", READ, ["search: Elm"])
    turns, rng = [], np.random.default_rng(seed)
    for number, (length, _) in enumerate(pairs):
        texts = tuple((f"text {t}", "search: Ann") for t in range(length + 1))
        turns += [ForkedTurn(f"q{number}", role, 0, texts, about, (0, 1), (0, 1)) for role in ("right", "wrong")]
    chance: dict[tuple[str, ...], float] = {}
    scores = [
        chance.setdefault(tuple(turn_features(t.records, len(t.turns) - 1, t.recency, "recency")), float(rng.normal()))
        for t in turns
    ]
    assert auroc(np.array(scores), np.array([turn.role == "right" for turn in turns])) == 0.5
