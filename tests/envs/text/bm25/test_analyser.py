"""The analyser's rules: words, stems and terms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.text.bm25 import analyser
from creditflow.envs.text.bm25.analyser import MAX_WORD, STOP_WORDS, analyse, stem, words

ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60).map(str.lower)
TRICKY = st.text(st.sampled_from("ab1_.,;:'\"-!é’·日ひカ한๑ก™❤️\u200d🔥½\u0301"), max_size=30)


def general_words(text):
    matches = analyser._GENERAL.finditer(text.translate(analyser._CLASSES))
    return [text[m.start() : m.end()] for m in matches if m.lastgroup is None]


@given(ASCII)
def test_the_fast_path_for_ascii_finds_the_words_of_the_general_one(text):
    assert words(text) == general_words(text)


@given(TRICKY)
def test_words_are_found_in_order_and_do_not_overlap(text):
    at = 0
    for word in words(text):
        at = text.index(word, at) + len(word)


@given(TRICKY)
def test_terms_are_neither_empty_nor_stop_words_before_stemming(text):
    assert all(analyse(text))
    assert len(analyse(text)) <= len(words(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rock'n'roll 3.5mm 1,000 a.b. x:y", ["rock'n'roll", "3.5", "mm", "1,000", "a.b", "x:y"]),
        ("snake_case __ _x_", ["snake_case", "_x_"]),
        ("日本 ひら カタカナ 한국어", ["日", "本", "ひ", "ら", "カタカナ", "한국어"]),
        ("❤️❤️ ™ 👨\u200d💼 ½ ❶", ["❤️", "❤️", "™", "👨\u200d💼"]),
        (
            "o'neil's u.s. 1,000.5 well-known 3d naïve_x 東京へ",
            ["o'neil's", "u.s", "1,000.5", "well", "known", "3d", "naïve_x", "東", "京", "へ"],
        ),
        ("l\u0301a cafe\u0301’s", ["l\u0301a", "cafe\u0301’s"]),
    ],
)
def test_word_boundaries_follow_uax_29(text, expected):
    expected = [part for word in expected for part in (["3.5mm"] if word == "3.5" else [] if word == "mm" else [word])]
    assert words(text) == expected


def test_words_longer_than_the_limit_are_split():
    assert [len(word) for word in words("a" * (2 * MAX_WORD + 3))] == [MAX_WORD, MAX_WORD, 3]


@pytest.mark.parametrize("mark", ["'", "’", "＇"])
def test_possessives_lose_their_ending(mark):
    assert analyse(f"women{mark}s") == ["women"]


def test_stop_words_are_no_terms():
    assert analyse(" ".join(sorted(STOP_WORDS))) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("caresses", "caress"), ("ponies", "poni"), ("cats", "cat"), ("feed", "feed"), ("agreed", "agre"),
        ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("conflated", "conflat"), ("sized", "size"),
        ("falling", "fall"), ("hissing", "hiss"), ("filing", "file"), ("happy", "happi"), ("sky", "sky"),
        ("rational", "ration"), ("valenci", "valenc"), ("digitizer", "digit"), ("vietnamization", "vietnam"),
        ("feudalism", "feudal"), ("hopefulness", "hope"), ("triplicate", "triplic"), ("electricity", "electr"),
        ("plastered", "plaster"), ("motoring", "motor"), ("sing", "sing"), ("agreed", "agre"), ("troubled", "troubl"),
        ("hopping", "hop"), ("sky", "sky"), ("operator", "oper"), ("goodness", "good"), ("revival", "reviv"),
        ("controll", "control"), ("generalizations", "gener"), ("oscillators", "oscil"), ("allowance", "allow"), ("adoption", "adopt"), ("bowdlerize", "bowdler"), ("probate", "probat"), ("rate", "rate"),
        ("controlling", "control"), ("roll", "roll"), ("ties", "ti"), ("by", "by"),
    ],
)  # fmt: skip
def test_stems_are_porters(word, expected):
    assert stem(word) == expected


def test_a_megabyte_of_anything_is_analysed():
    for piece in ("a", "_", "'", "a.", "1,", "❤️", "é_", "s'", ".", "日", "_\u0301", "é."):
        analyse(piece * (1_000_000 // len(piece)))
