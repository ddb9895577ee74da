"""The table of the page "Other text games" is the stored measurement, and its examples are short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.shared_data import ROOT
from helpers.text_games import PAGE, code_lines, page_files

FOUND = json.loads((ROOT / "tests" / "evidence" / "text_games" / "results.json").read_text(encoding="utf-8"))
ROWS = {
    "House, the facts": ("house", "the facts"),
    "House, the text": ("house", "the text"),
    "House, the text and the commands": ("house", "the text and the listed commands"),
    "Guess, what the hints leave": ("guess", "what the hints leave"),
    "… and the guesses used": ("guess", "what the hints leave, guesses used"),
    "Guess, the last text": ("guess", "the last text"),
    "Guess, all texts": ("guess", "all texts"),
}


@pytest.mark.parametrize("label", ROWS)
def test_a_row_of_the_table_is_what_was_measured(label: str) -> None:
    game, key = ROWS[label]
    stored = FOUND[game]["keys"][key]
    [line] = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {label} |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    conflicted, once = stored["turns in conflicted keys"], stored["turns in keys seen once"]
    percent = {name: round(100 * value) for name, value in conflicted.items()}
    wanted = f"{percent['mean']}%" + (f" [{percent['low']}, {percent['high']}]" if percent["high"] else "")
    assert cells[1:3] == [wanted, f"{round(100 * once['mean'])}%"]
    if game == "guess":
        for cell, scheme in zip(cells[3:], ("gigpo", "graphgpo", "grouptd"), strict=True):
            value = stored["correlation with exact advantages"][scheme]
            short = {name: f"{value[name]:.2f}".lstrip("0") for name in ("mean", "low", "high")}
            assert cell in (short["mean"], f"{short['mean']} [{short['low']}, {short['high']}]")


def test_the_rival_without_states_is_the_stored_one() -> None:
    row = FOUND["guess"]["keys"]["all texts"]["correlation with exact advantages"]["grpo"]
    assert f"r = {row['mean']:.2f}".replace("0.", ".") in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("tier", ["alfworld", "gem"])
def test_an_example_is_one_file_of_at_most_fifty_lines(tier: str, tmp_path: Path) -> None:
    [path] = page_files(tier, tmp_path)
    assert code_lines(path) <= 50
