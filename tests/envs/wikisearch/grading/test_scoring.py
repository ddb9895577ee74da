"""Invariants of the answer metrics and of entity matching."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.entity_matching import Lexicon, normalized_phrase, phrase_tokens
from creditflow.envs.wikisearch.grading.grade import Grader
from creditflow.envs.wikisearch.grading.scoring import (
    METRICS,
    exact_match,
    normalises_to_nothing,
    normalize_answer,
    pica_f1,
    sub_match,
    token_f1,
)
from creditflow.envs.wikisearch.questions import Question

QUESTION = Question("q", "Who?", ("Ada Lovelace", "Countess"))


@given(st.text(), st.text())
def test_f1_lies_between_0_and_1_and_is_symmetric(a: str, b: str) -> None:
    assert 0.0 <= token_f1(a, [b]) <= 1.0
    assert token_f1(a, [b]) == token_f1(b, [a])


@given(st.text())
def test_an_answer_matches_itself(text: str) -> None:
    assert exact_match(text, [text]) == sub_match(text, [text]) == 1.0
    if normalize_answer(text):
        assert token_f1(text, [text]) == 1.0


@given(st.text(), st.lists(st.text(), max_size=3))
def test_exact_match_implies_contained_match(text: str, golden: list[str]) -> None:
    assert exact_match(text, golden) <= sub_match(text, golden)


@given(st.text())
def test_normalising_is_idempotent(text: str) -> None:
    once = normalize_answer(text)
    assert normalize_answer(once) == once


def test_without_golden_answers_no_answer_is_correct() -> None:
    assert exact_match("a", []) == sub_match("a", []) == token_f1("a", []) == 0.0


def test_with_f1_only_an_exact_answer_is_a_success() -> None:
    grade = Grader("f1").grade(QUESTION, "Ada King Lovelace")
    assert grade.score == pytest.approx(0.8)
    assert not grade.correct
    assert Grader("f1").grade(QUESTION, "ada lovelace!").correct


@given(st.text(), st.lists(st.text(), max_size=3))
def test_picas_f1_lies_between_0_and_1_and_is_1_for_a_golden_answer(text: str, golden: list[str]) -> None:
    assert 0.0 <= pica_f1(text, golden) <= 1.0
    if normalize_answer(text):
        assert pica_f1(text, [*golden, text]) == 1.0


def test_the_metric_pica_f1_scores_sets_of_words_from_0_to_1() -> None:
    # {ada, king, lovelace} and {ada, lovelace}: 2 · 2 / (3 + 2); a repeated word counts once
    grader = Grader("pica_f1")
    assert grader.grade(QUESTION, "Ada King Lovelace").score == pytest.approx(0.8)
    assert grader.grade(QUESTION, "Ada Ada Lovelace").score == 1.0
    assert grader.grade(QUESTION, "Babbage").score == 0.0


def test_a_judge_replaces_the_metric_and_sees_question_golden_answers_and_answer() -> None:
    seen: list[object] = []

    def judge(question: str, golden: object, answer: str) -> float:
        seen.append((question, golden, answer))
        return 0.25

    grade = Grader("em", judge).grade(QUESTION, "Ada Lovelace")
    assert (grade.score, grade.correct, grade.em) == (0.25, False, 1.0)
    assert seen == [("Who?", ("Ada Lovelace", "Countess"), "Ada Lovelace")]


def test_a_judge_that_returns_no_score_is_an_error() -> None:
    with pytest.raises(ConfigError, match="score in"):
        Grader("em", lambda *_: 7.0).grade(QUESTION, "x")


def test_an_unknown_metric_is_an_error_with_the_near_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sub_em'"):
        Grader("subem")


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=10))
def test_a_phrase_is_found_between_other_words(before: str, after: str, phrase: str) -> None:
    assert normalized_phrase(phrase, f"{before} {phrase} {after}") == bool(phrase_tokens(phrase))


@pytest.mark.parametrize(
    ("entity", "text"), [("東京", "彼は東京都に住む"), ("กรุงเทพ", "ไปกรุงเทพมหานคร"), ("ノーラン", "監督はノーランです")]
)
def test_scripts_without_spaces_match_inside_sentences(entity: str, text: str) -> None:
    assert normalized_phrase(entity, text)
    assert Lexicon({entity: entity}).mentions(text) == (entity,)


def test_the_longest_name_wins_and_mentions_do_not_overlap() -> None:
    lexicon = Lexicon({"York": "York", "New York": "New York", "New York Times": "Times"})
    assert lexicon.mentions("The New York Times of York, New York") == ("Times", "York", "New York")


BARE = st.lists(st.sampled_from(["a", "An", "THE", "!", "?!", "(", "the."]), min_size=1, max_size=3).map(" ".join)


@given(BARE, st.text(max_size=12))
def test_an_answer_of_articles_and_punctuation_is_compared_as_it_is_written(golden: str, prediction: str) -> None:
    assert normalises_to_nothing(golden)
    for name, score in METRICS.items():
        assert score(golden, [golden]) == 1.0, name
    same = prediction.split() == golden.split()
    assert exact_match(prediction, [golden]) == float(same)
    if not set(prediction.split()) & set(golden.split()):
        assert token_f1(prediction, [golden]) == pica_f1(prediction, [golden]) == 0.0


@pytest.mark.parametrize(
    ("prediction", "golden", "found"),
    [
        ("B", "A", 0.0), ("", "A", 0.0), ("option A", "A", 1.0), ("an Apple", "A", 0.0), ("a", "A", 0.0),
        ("B", "", 0.0), ("B", " ", 0.0), ("", "", 1.0), ("what?!", "!!!", 0.0), ("hey!!!", "!!!", 1.0), ("the Beatles", "The The", 0.0), ("by The  The", "The The", 1.0),
    ],
)  # fmt: skip
def test_such_an_answer_occurs_as_whole_words(prediction: str, golden: str, found: float) -> None:
    assert sub_match(prediction, [golden]) == found == sub_match(prediction, ["Carthage", golden, "Ur"])
