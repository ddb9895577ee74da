"""The score of a purchase, beyond the recordings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import ConfigError, MissingExtraError
from creditflow.envs.webshop.catalogue.embedded import embedded_stock
from creditflow.envs.webshop.goals.nouns import named_tagger, rule_tagger, spacy_tagger
from creditflow.envs.webshop.reward import COLOURS, option_met, reduce_colour, score_purchase, token_set_ratio

PHRASES = st.lists(st.sampled_from(["navy", "blue", "large", "2", "pack", "é", "_x", "men"]), max_size=5).map(" ".join)
STOCK = embedded_stock()


@given(PHRASES, PHRASES, st.randoms(use_true_random=False))
def test_the_order_of_words_does_not_matter(a, b, random):
    mixed = a.split()
    random.shuffle(mixed)
    assert token_set_ratio(a, b) == token_set_ratio(" ".join(mixed), b)


@given(PHRASES, PHRASES)
def test_similarity_lies_in_0_100_and_is_100_for_a_part_of_the_words(a, b):
    assert 0 <= token_set_ratio(a, b) <= 100
    if set(a.split()) & set(b.split()) - {"é"} and set(a.split()) <= set(b.split()):
        assert token_set_ratio(a, b) == 100


@given(st.data())
def test_scores_lie_in_0_1_and_equal_their_parts(data):
    goal = data.draw(st.sampled_from(STOCK.goals))
    row = data.draw(st.integers(0, len(STOCK.catalogue) - 1))
    product = STOCK.catalogue.store.product(row)
    chosen = [data.draw(st.sampled_from(values)) for _, values in product.options]
    parts = score_purchase(product, STOCK.catalogue.store.price(row), chosen, goal, rule_tagger)
    whole = parts.r_att * parts.w_att + parts.r_option * parts.w_option + parts.r_price * parts.w_price
    assert parts.score == pytest.approx(whole * parts.r_type)
    assert 0 <= parts.score <= 1
    assert parts.w_att + parts.w_option + parts.w_price == pytest.approx(1)


def test_every_colour_word_reduces_a_value_that_contains_it():
    assert all(reduce_colour(f"zz {colour} zz") in COLOURS for colour in COLOURS)


def test_the_colour_rule_makes_some_named_goals_unsolvable():
    assert not option_met(("color", "r.brown2070"), ["r.brown2070"])
    assert option_met("r.brown2070", ["r.brown2070"])


def test_the_rule_tagger_keeps_nouns_and_their_repeats():
    assert rule_tagger("Large Blue Tea Set with 2 Tea Cups") == ("tea", "set", "tea", "cups")


def test_a_wrong_tagger_name_suggests_the_near_one():
    with pytest.raises(ConfigError, match="rules"):
        named_tagger("rule")


def test_an_error_of_the_spacy_tagger_names_what_to_install():
    try:
        tagger = spacy_tagger("no_such_model")
    except MissingExtraError as error:
        assert "webshop" in str(error)
    else:
        raise AssertionError(tagger)
