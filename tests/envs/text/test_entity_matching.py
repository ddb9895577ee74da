"""The entity matcher: its rules, one pass for all names, texts in any script."""

import json
from typing import Any

import pytest
from helpers.shared_data import shared_files
from hypothesis import example, given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError
from creditflow.envs.text.entity_matching import (
    EntityMatcher,
    Lexicon,
    MatchRule,
    exact_substring,
    normalized_phrase,
    phrase_tokens,
)

# words that overlap, case-fold, decompose, lie beyond the BMP or in scripts without spaces; and separators
WORDS = (
    "ann",
    "York",
    "new",
    "NEW",
    "São",
    "Sa\u0303o",
    "ﬁn",
    "İstanbul",
    "ß",
    "東",
    "京都",
    "กรุง",
    "𠀀",
    "😀",
    "5",
    "a_b",
)
PARTS = (" ", "-", ", ", "_", "’", "\n", "\u200b", "\ud800", "", "  ")
texts = st.lists(st.sampled_from((*WORDS, *PARTS)), max_size=12).map("".join) | st.text(max_size=20)


def cases() -> list[Any]:
    found = []
    for path in shared_files("conformance/search_credit/entity_matching.json"):
        found += [pytest.param(case, id=case["id"]) for case in json.loads(path.read_text(encoding="utf-8"))["cases"]]
    return found


def tokens_contain(entity: str, text: str) -> bool:
    """Apply the stated rule word by word."""
    words, phrase = phrase_tokens(text), phrase_tokens(entity)
    return bool(phrase) and any(words[i : i + len(phrase)] == phrase for i in range(len(words)))


@pytest.mark.parametrize("case", cases())
def test_entities_match_by_the_stated_rules(case: Any) -> None:
    entity, text = case["input"]["entity"], case["input"]["text"]
    one = {"exact_substring": exact_substring, "normalised_phrase": normalized_phrase}[case["kind"]]
    rule: MatchRule = "exact_substring" if case["kind"] == "exact_substring" else "normalized"
    assert one(entity, text) is case["expected"]
    assert EntityMatcher([(entity,)], rule).found(text) == ((0,) if case["expected"] else ())


@given(texts, texts)
@example("", "")
@example("ann", "annual")
@example("😀", "😀")
@example("York new", "New York NEW-york")
def test_a_phrase_matches_where_its_tokens_are_contiguous(entity: str, text: str) -> None:
    assert normalized_phrase(entity, text) == tokens_contain(entity, text)


@given(st.lists(st.lists(texts, max_size=2), max_size=5), texts)
def test_one_pass_finds_the_same_mentions_as_single_tests(entities: list[list[str]], text: str) -> None:
    for rule, one in (("normalized", tokens_contain), ("exact_substring", exact_substring)):
        matcher = EntityMatcher(entities, rule)  # type: ignore[arg-type]  # literals, joined by the loop
        expected = tuple(i for i, forms in enumerate(entities) if any(one(form, text) for form in forms))
        assert matcher.found(text) == expected
        assert tuple(sorted(matcher.in_order(text))) == tuple(sorted(set(matcher.in_order(text)) & set(expected)))


@given(st.lists(texts, max_size=6, unique=True), texts)
def test_a_lexicon_matches_leftmost_longest(forms: list[str], text: str) -> None:
    names: dict[tuple[str, ...], str] = {}
    for form in forms:
        if phrase_tokens(form):
            names.setdefault(phrase_tokens(form), form)
    words, expected, i = phrase_tokens(text), [], 0
    while i < len(words):
        fits = [n for n in range(len(words) - i, 0, -1) if words[i : i + n] in names]
        if fits:
            expected.append(names[words[i : i + fits[0]]])
        i += fits[0] if fits else 1
    assert Lexicon({form: form for form in forms}).mentions(text) == tuple(dict.fromkeys(expected))


def test_a_name_inside_a_longer_word_is_not_a_mention() -> None:
    text = "The annual report on Londoners"
    assert EntityMatcher([("Ann",), ("London",)]).found(text) == ()
    assert EntityMatcher([("Ann",), ("London",), ("ann",)], "exact_substring").found(text) == (1, 2)


def test_mentions_may_overlap_and_a_form_may_belong_to_several_entities() -> None:
    matcher = EntityMatcher([("New York",), ("York City",), ("york", "NYC"), ("YORK",)])
    assert matcher.found("New York City") == (0, 1, 2, 3)


def test_inflections_are_other_words_unless_they_are_aliases() -> None:
    text = "The South Korean director"
    assert EntityMatcher([("South Korea",)]).found(text) == ()
    assert EntityMatcher([("South Korea", "South Korean")]).found(text) == (0,)


def test_no_mention_extends_over_two_texts() -> None:
    matcher = EntityMatcher([("New York",)])
    assert [matcher.found(text) for text in ("in New", "York today", "New York")] == [(), (), (0,)]


def test_an_unknown_rule_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'normalized'"):
        EntityMatcher([], "normalised")  # type: ignore[arg-type]  # the mistake under test
