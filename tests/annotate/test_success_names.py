"""Names as symbols: equal words keep being equal, common ones keep their form."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from creditflow.train.annotate.success_encoding import Encoder, TextConfig
from creditflow.train.annotate.success_names import SYMBOLS, common_words, symbolic
from creditflow.wrappers.trajectory import Turn

WORD = st.text("abcde", min_size=1, max_size=3)


@given(texts=st.lists(st.lists(WORD, min_size=1, max_size=8), max_size=5))
def test_two_words_get_one_symbol_exactly_if_they_are_equal(texts):
    rewrite = symbolic({"a"})
    before = [word for text in texts for word in text]
    after = [word for text in texts for word in rewrite(" ".join(text)).split()]
    for one, other in zip(before, after, strict=True):
        assert (other == one) if one == "a" else re.fullmatch(r"n\d+", other)
        assert all((one == x) == (other == y) for x, y in zip(before, after, strict=True))


def test_symbols_are_all_different_until_they_are_used_up():
    many = symbolic(())(" ".join(f"word{i}" for i in range(SYMBOLS + 9))).split()
    assert sorted(many[:SYMBOLS], key=lambda name: int(name[1:])) == [f"n{i}" for i in range(1, SYMBOLS + 1)]
    assert set(many[SYMBOLS:]) == {many[SYMBOLS - 1]}


def test_the_order_of_symbols_is_the_episodes_own():
    orders = [symbolic({"find"})(f"find {names}").split()[1:] for names in ("elm oak ash", "fir yew box")]
    assert orders[0] != orders[1]
    assert symbolic({"find"})("find elm oak ash").split()[1:] == orders[0]


def test_every_episode_begins_anew():
    words = ("find", "seen")

    class Bytes:
        def get_vocab(self):
            return {}

        def encode(self, text, add_special_tokens):
            assert not add_special_tokens
            return list(text.encode())

    encoder = Encoder(Bytes(), TextConfig(names="symbols"), words=words)
    for name in ("Elm", "Oak"):
        ids = encoder.encode([Turn("s", f"find {name}", "t", observation=f"seen {name}")], "t").ids.tolist()
        assert re.fullmatch(r"seen (n\d+)\nfind \1\n", bytes(ids).decode())


def test_common_words_are_the_most_frequent_of_different_texts():
    assert common_words(["b b", "b b", "a c", "a d"], 1) == ("a",)
    assert common_words(["b", "a"], 1) == ("a",)  # equal counts: by the alphabet
