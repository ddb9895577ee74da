"""What the site says of papers stands in the papers."""

from __future__ import annotations

import re

import pytest
from helpers.shared_data import shared_file

from builder.make.recipes import HOURS, PUBLISHED


@pytest.mark.parametrize("recipe", [name for name, of in PUBLISHED.items() if of.quotes])
def test_the_words_behind_a_published_figure_stand_in_its_paper(recipe: str) -> None:
    for paper, words in PUBLISHED[recipe].quotes:
        text = shared_file(f"papers/{paper}.txt").read_text(encoding="utf-8")
        assert words in re.sub(r"\s+", " ", text), f"{paper}: {words}"


def test_hours_that_follow_from_a_stated_time_are_computed_from_it() -> None:
    graphgpo = 2 * 150 * (216.9 + 74.2 + 0.108 + 0.025) / 3600
    assert f"{graphgpo:.0f} GPU hours" in HOURS
    assert f"{2 * 100 * 320.3 / 3600:.0f} GPU hours" in PUBLISHED["rewardflow_alfworld"].time
