"""What is read from a passage, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.text.entity_matching import phrase_tokens
from creditflow.envs.wikisearch.synthesis.markup import MAX_TEXT, without_markup
from creditflow.envs.wikisearch.synthesis.statements import (
    definition_of,
    names_at,
    plain_title,
    read_statements,
    sentences_of,
)


def facts(title: str, text: str, *titles: str) -> dict[str, tuple[str, ...]]:
    return dict(read_statements(title, text, {phrase_tokens(name) for name in titles}).facts)


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        (
            "Low Tide (film)",
            "Low Tide is a 1961 Danish drama film written and directed by Ann Lee and produced by the Swede Bo Day.",
            {"year": ("1961",), "director": ("Ann Lee",), "writer": ("Ann Lee",)},
        ),
        (
            "Ann Lee",
            "Ann Lee (3 May 1920 – 4 June 1990) was a Danish film director. She was born in Odense, Denmark and died in Rome.",
            {"birth_year": ("1920",), "death_year": ("1990",), "birth_place": ("Odense",)},
        ),
        (
            "Ann Lee",
            "Ann Lee is an actress born in New York City and Paris. She attended Vale College. He plays for Rome.",
            {"birth_place": ("New York City", "Paris"), "school": ("Vale College",), "team": ("Rome",)},
        ),
        (
            "Ann Lee", "Ann Lee (3 May 1920, Graz – 4 June 1990) was a director. She was born in the Austrian Empire.",
            {"birth_place": ("Graz", "Austrian Empire"), "birth_year": ("1920",), "death_year": ("1990",)},
        ),
        ("Red", "Red is a song by composer Bo Day and lyricist Cy Fox.", {}),
        ("Red", "Red is a song recorded by the Puerto Rican singer Bo Day from her debut album Blue Sky.",
         {"performer": ("Bo Day",), "album": ("Blue Sky",)}),
        ("Odense", "Odense is the capital of Funen. It was bombed.", {"capital_of": ("Funen",)}),
        ("Rema 2000", "Rema 2000 is a company founded in 1979 and headquartered in Oslo.",
         {"founding_year": ("1979",), "seat": ("Oslo",)}),
        ("Low Tide", "Low Tide is a film directed by Ann Lee, Bo Day and the critic Cy Fox, and starring Di Ek.",
         {"director": ("Ann Lee", "Bo Day", "Cy Fox")}),
    ],
)  # fmt: skip
def test_known_sentences_give_their_statements(title: str, text: str, expected: dict[str, tuple[str, ...]]) -> None:
    found = facts(title, text)
    assert {relation: found.get(relation) for relation in expected} == expected
    assert expected or not found


@pytest.mark.parametrize(
    "text",
    [
        "Low Tide is a film based on the novel written by Ann Lee.",
        "Low Tide is a film, a remake of one that was directed by Ann Lee.",
        "Low Tide is a film directed by Ann Lee's brother.",
        "Low Tide is a film directed by his brother.",
        "Low Tide is a film from a story written by Ann Lee, co-written by Bo Day, an adaptation of Cy Fox' novel.",
        "Bo Day is an actor. High Tide was directed by Ann Lee.",
        "In this story a film directed by Ann Lee is shown.",
        "Low Tide was directed by Ann Lee.",  # no definition
        "Low Tide is a film performed by Ann Lee.",  # only what is sung has performers
        "Low Tide is a film in which a song is performed by Ann Lee.",
    ],
)
def test_a_cue_about_something_else_is_not_read(text: str) -> None:
    assert not facts("Low Tide", text).keys() & {"director", "writer", "performer"}


def test_a_known_title_is_read_whole_and_a_longer_name_is_not_cut() -> None:
    text = "Red is a film directed by Lee of the Dunes. It was made as a sequel to gone with the wind, and more."
    assert facts("Red", text, "Lee of the Dunes")["director"] == ("Lee of the Dunes",)
    assert facts("Ann", "Ann is an actress born in York Minster Hall.", "York")["birth_place"] == ("York Minster Hall",)


def test_links_of_html_and_wiki_markup_are_read_and_everything_hidden_is_removed() -> None:
    text = '<p>A<script>x</script> <a class="b" href="/wiki/Ann_Lee_%28poet%29">Lee</a>&nbsp;[[Bo|B.]] <!-- c -->[[Cy]]</p>'
    plain = without_markup(text)
    assert plain.text == "A Lee B. Cy"
    assert plain.links == (("Lee", "Ann Lee (poet)"), ("B.", "Bo"), ("Cy", "Cy"))


def test_a_definition_gives_description_class_and_years() -> None:
    found = definition_of("X is the third 1999 Danish studio album by Ann.")
    assert (found.noun, found.kind, found.description) == ("album", "work", "1999 Danish studio album")
    assert definition_of("X is a 1961 Danish film directed by Y.").years == (("year", "1961"),)
    assert definition_of("X was the daughter of Y.").description == "person"
    assert definition_of("X runs.").noun == ""


def test_sentences_end_neither_at_initials_nor_at_titles() -> None:
    assert sentences_of("It is by J. R. Lee and Dr. Day. She sang. He") == [
        "It is by J. R. Lee and Dr. Day.",
        "She sang.",
        "He",
    ]


@given(st.text(max_size=400), st.text(max_size=40))
def test_any_text_is_read(text: str, title: str) -> None:
    plain = without_markup(text)
    assert "  " not in plain.text
    for _, names in read_statements(title, plain.text, {phrase_tokens(title)}).facts:
        assert all(name.strip() for name in names)


@given(
    st.lists(
        st.sampled_from(
            ["Ann", "Lee", "of", "the", "and", ",", "J.", "(", "York", "'s", "film", "French", "1990", '"']
        ),
        max_size=14,
    )
)
def test_names_are_spans_of_the_text(words: list[str]) -> None:
    text = " ".join(words)
    for skip in (False, True):
        for name in names_at(text, 0, {("ann", "lee"), ("york",)}, skip=skip):
            assert name in text
            assert phrase_tokens(name)


def test_a_huge_passage_is_read_up_to_a_limit() -> None:
    assert len(without_markup("a" * (MAX_TEXT + 9)).text) == MAX_TEXT
    assert without_markup("<a href='x'>[[" * 700 + "]]" * 2_000 + "&amp;").text.endswith("]&")
    long = f"A is a film, {'made in May, ' * 100}directed by Ann Lee. It was written by Bo Day."
    assert facts("A", long) == {"writer": ("Bo Day",)}  # the end of a sentence without end is not read


def test_a_title_without_brackets() -> None:
    assert [plain_title(title) for title in ("A (film)", "(B)", "C (d) e", "F")] == ["A", "(B)", "C (d) e", "F"]
