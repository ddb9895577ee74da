"""``creditflow schemes``: the list, one card, the page."""

from __future__ import annotations

import json

import pytest

from creditflow import credit
from creditflow.train.cli import main


def test_without_a_name_the_schemes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} >= set(credit.names())
    assert main(["schemes", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["scheme"] for row in rows} >= set(credit.names())


def test_a_card_has_formula_needs_properties_result_and_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes", "igpo"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "A_t = Σ_{k ≥ t}",
        "2510.14967",
        "likelihood:DIR",
        "check_credit",
        "Counterexamples",
        "Result",
        "Limitations",
    ):
        assert part in shown
    assert main(["schemes", "igpo", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["annotations"] == {"logp.answer.mean": "likelihood:DIR"}
    assert {p["result"] for p in data["properties"]} == {"declared", "holds", "refuted"}


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes", "gigp"]) == 2
    assert "did you mean 'gigpo'" in capsys.readouterr().err


def test_the_page_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# Credit schemes\n")
    assert main(["schemes", "gigpo", "--markdown"]) == 2
    assert "leave out NAME and --json" in capsys.readouterr().err
