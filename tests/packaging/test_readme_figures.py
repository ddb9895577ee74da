"""The README's table of findings and the site's leaderboard have the numbers of the stored results, and no number has two values."""

from __future__ import annotations

import re

import pytest
from evidence.settings.tables import leaderboard, leads_of, level_table, mean_lead
from helpers.shared_data import ROOT

from creditflow.envs.registration import ENVIRONMENTS

EVIDENCE = ROOT / "tests" / "evidence"
METHODS = ("gigpo", "graphgpo", "stateless", "grouptd", "oracle_adv")


def test_the_row_of_the_readme_has_the_stored_numbers() -> None:
    leads = leads_of(EVIDENCE / "settings" / "results.jsonl")
    numbers = " | ".join(f"{mean_lead(leads, method).mean:+.1f}".replace("-", "−") for method in METHODS)
    text = (ROOT / "README.md").read_text("utf-8")
    assert f"\n| {numbers} |\n" in text.replace("**", "")
    assert f"[{len(leads)} settings](tests/evidence/settings/README.md)" in text


def test_the_leaderboard_has_the_tables_of_the_stored_settings() -> None:
    runs = [leads_of(EVIDENCE / "settings" / name) for name in ("results.jsonl", "second.jsonl")]
    page = (ROOT / "assets/site/pages/benchmark/leaderboard.md").read_text("utf-8")
    assert leaderboard(runs) in page
    assert level_table(runs) in page
    assert leaderboard(runs).count("grouptd") == 1
    assert f"[{len(runs[0])} settings](../../../../tests/evidence/settings/README.md)" in page


SITE = "assets/site/pages/"
FOUR = r"(\d+){0}Sokoban, (\d+){0}ALFWorld, (\d+){0}WebShop and (\d+){0}WikiSearch"
# number -> the files that quote it, and where it stands there
QUOTED = {
    "schemes of the demo": {
        "README.md": r"make demo # (\w+) methods in",
        "Makefile": r"measure (\w+) credit schemes",
        SITE + "start/tutorial.md": r"compares (\w+) schemes in",
    },
    "minutes of the demo": {
        "README.md": r"methods in (\w+) minutes",
        SITE + "start/tutorial.md": r"schemes in about (\w+) minutes",
    },
    "minutes of the quickstart": {
        SITE + "how_to/train.md": r"48 iterations and takes about (\w+) minutes",
        SITE + "how_to/small_model.md": r"Training then takes (\w+) minutes",
    },
    "settings in which grouptd is within two points of the best": {
        SITE + "benchmark/verdict.md": r"within two points of the best scheme in (\d+) of",
        "tests/evidence/settings/README.md": r"points of the best scheme in (\d+) of 96",
    },
    "gain of dense rewards in Q-learning": {
        SITE + "how_to/dense_rewards.md": "during learning by " + FOUR.format("(?: points)? on "),
        "tests/evidence/dense_rewards/README.md": "gain " + FOUR.format("(?: points of success while learning)? on "),
    },
    "gain of experience replay": {
        SITE + "how_to/dense_rewards.md": r"potential, gained (\d+), (\d+), (\d+) and (\d+),",
        "tests/evidence/dense_rewards/README.md": r"It gains (\d+), (\d+), (\d+) and (\d+) points",
    },
}


@pytest.mark.parametrize("number", QUOTED)
def test_a_number_has_one_value_wherever_it_is_quoted(number: str) -> None:
    values = {}
    for file, pattern in QUOTED[number].items():
        text = " ".join((ROOT / file).read_text("utf-8").split())
        [found] = {match.groups() for match in re.finditer(pattern, text)}
        values[file] = [value.replace("+", "") for value in found]
    assert len({*map(tuple, values.values())}) == 1, values


def test_the_readme_counts_what_there_is() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert (
        f"**{dict(enumerate(('Three', 'Four', 'Five', 'Six'), 3))[len(ENVIRONMENTS)]} Gymnasium environments**" in text
    )
