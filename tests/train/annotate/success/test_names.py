"""Name anonymisation: the words that replace names, which do not depend on the names themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.annotate.success.encoding import Encoder, TextConfig
from creditflow.train.annotate.success.names import by_origin, plain_words
from creditflow.wrappers.trajectory import Turn

NAME = st.sampled_from(["Elm", "Oak", "Ash", "Fir"])


@given(texts=st.lists(st.lists(NAME, min_size=1, max_size=5), min_size=1, max_size=8), order=st.permutations("wxyz"))
def test_other_names_at_the_same_positions_give_the_same_text(texts, order):
    other = dict(zip(["Elm", "Oak", "Ash", "Fir"], (f"N{letter}" for letter in order), strict=True))
    one, two = by_origin((), ()), by_origin((), ())
    for text in texts:
        assert one(", ".join(text)) == two(", ".join(other[name] for name in text))


def test_a_name_becomes_the_number_of_turns_since_its_first_and_last_occurrence():
    rewrite = by_origin((), ())
    rewritten = [rewrite(text) for text in ("Elm", "Elm", "Oak, Elm", "Oak", "Ash", "Oak", "Ash, Oak", "Elm")]
    assert rewritten == [
        " asked",
        " asked",
        " new askedlast1",
        " age0",
        " new",
        " age1last1",
        " age1last1 age2last1",
        " askedlast2",
    ]


def test_ages_beyond_the_largest_are_equal():
    rewrite = by_origin((), ())
    rewritten = [rewrite(text) for text in ["", "", "Elm", *[""] * 7, "Elm", *[""] * 11, "Elm"]]
    assert rewritten[10] == rewritten[22] == " age4last4"


def test_a_run_of_capitals_and_numbers_is_one_name_and_other_words_end_it():
    rewrite = by_origin({"the", "of"}, {"of"})
    assert rewrite("the 1752 Air Race of the Elm Oak. [1] ash") == " asked of asked [1]"
    rewrite("of Elm")
    assert rewrite("1752 Air, Race, Elm Oak") == " new new askedlast1"


def test_ages_do_not_carry_over_between_episodes():
    class Bytes:
        def get_vocab(self):
            return {}

        def __call__(self, texts, *, add_special_tokens, **_options):
            assert not add_special_tokens
            return {"input_ids": [list(text.encode()) for text in texts]}

    encoder = Encoder(Bytes(), TextConfig(names="origins", common_words=1), words=("seen", "by"))
    for name in ("Elm", "Oak"):
        ids = encoder.encode([Turn("s", f"search: {name}", "t", observation=f"seen by {name}")], "t").ids.tolist()
        assert bytes(ids).decode() == " seen asked\n search asked\n"


def test_plain_words_are_in_lower_case_except_at_the_start_of_a_sentence():
    assert plain_words(["Who saw Elm? He saw Oak Elm."]) == ("saw", "he", "who")


def test_a_text_that_recurs_counts_once():
    assert plain_words(["b b", "b b", "a c", "a d a"]) == ("a", "b", "c", "d")
