"""Names by where they stood: what a rewritten episode says, and that it does not say which names they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.annotate.success.encoding import Encoder, TextConfig
from creditflow.train.annotate.success.names import by_origin, plain_words
from creditflow.wrappers.trajectory import Turn

NAME = st.sampled_from(["Elm", "Oak", "Ash", "Fir"])


@given(texts=st.lists(st.lists(NAME, min_size=1, max_size=5), min_size=1, max_size=8), order=st.permutations("wxyz"))
def test_other_names_in_the_same_places_read_alike(texts, order):
    other = dict(zip(["Elm", "Oak", "Ash", "Fir"], (f"N{letter}" for letter in order), strict=True))
    one, two = by_origin((), ()), by_origin((), ())
    for text in texts:
        assert one(", ".join(text)) == two(", ".join(other[name] for name in text))


def test_a_name_says_how_many_turns_ago_it_was_first_and_last_shown():
    rewrite = by_origin((), ())
    said = [rewrite(text) for text in ("Elm", "Elm", "Oak, Elm", "Oak", "Ash", "Oak", "Ash, Oak", "Elm")]
    assert said == [
        " asked",
        " asked",
        " new askedlast1",
        " age0",
        " new",
        " age1last1",
        " age1last1 age2last1",
        " askedlast2",
    ]


def test_what_is_old_reads_alike_however_old():
    rewrite = by_origin((), ())
    said = [rewrite(text) for text in ["", "", "Elm", *[""] * 7, "Elm", *[""] * 11, "Elm"]]
    assert said[10] == said[22] == " age4last4"


def test_a_run_of_capitals_and_numbers_is_one_name_and_other_words_end_it():
    rewrite = by_origin({"the", "of"}, {"of"})
    assert rewrite("the 1752 Air Race of the Elm Oak. [1] ash") == " asked of asked [1]"
    rewrite("of Elm")
    assert rewrite("1752 Air, Race, Elm Oak") == " new new askedlast1"


def test_every_episode_begins_anew():
    class Bytes:
        def get_vocab(self):
            return {}

        def encode(self, text, add_special_tokens):
            assert not add_special_tokens
            return list(text.encode())

    encoder = Encoder(Bytes(), TextConfig(names="origins", common_words=1), words=("seen", "by"))
    for name in ("Elm", "Oak"):
        ids = encoder.encode([Turn("s", f"search: {name}", "t", observation=f"seen by {name}")], "t").ids.tolist()
        assert bytes(ids).decode() == " seen asked\n search asked\n"


def test_plain_words_are_those_written_small_or_only_at_a_sentences_start():
    assert plain_words(["Who saw Elm? He saw Oak Elm."]) == ("saw", "he", "who")


def test_a_text_that_recurs_counts_once():
    assert plain_words(["b b", "b b", "a c", "a d a"]) == ("a", "b", "c", "d")
