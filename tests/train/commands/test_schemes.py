"""``creditflow schemes``: the list, one card, all cards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from creditflow import credit
from creditflow.train.cards.card import make_card
from creditflow.train.cli import main


def test_without_a_name_the_schemes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} >= set(credit.names())
    assert main(["schemes", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["scheme"] for row in rows} >= set(credit.names())


def test_a_card_has_formula_needs_properties_cost_and_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes", "trace"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "A_t = A_out",
        "2607.13988",
        "likelihood:DIR",
        "check_credit",
        "Counterexamples",
        "Cost",
        "Limitations",
    ):
        assert part in shown
    assert main(["schemes", "trace", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["annotations"] == {"logp.answer.mean": "likelihood:DIR"}
    assert {p["result"] for p in data["properties"]} == {"declared", "holds", "refuted"}


def test_an_unknown_name_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemes", "gigp"]) == 2
    assert "did you mean 'gigpo'" in capsys.readouterr().err


def test_options_that_exclude_each_other_or_have_no_effect_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schemes", "gigpo", "--all"]) == 2
    assert main(["schemes", "gigpo", "--out", str(tmp_path / "cards")]) == 2
    assert "add --all" in capsys.readouterr().err
    assert main(["schemes", "--measure-cost"]) == 2
    assert "--measure-cost needs the name of a scheme or --all" in capsys.readouterr().err


def test_all_cards_are_written_as_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = make_card("rloo")
    monkeypatch.setattr("creditflow.train.cards.card.make_card", lambda name, *_, **__: replace(card, name=name))
    assert main(["schemes", "--all", "--out", str(tmp_path / "cards")]) == 0
    page = (tmp_path / "cards" / "SCHEMES.md").read_text("utf-8")
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == list(credit.names())
    assert main(["schemes", "--all", "--out", str(tmp_path / "cards")]) == 2  # it exists
    assert main(["schemes", "--all", "--out", str(tmp_path / "cards"), "--force"]) == 0
