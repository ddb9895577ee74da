"""The scripted reader knows nothing by itself and reads what is written; the stored table is of this script's form."""

from __future__ import annotations

import json

import pytest
from evidence.search_baselines.run import AGENTS, NOISE, OVERLOOKS, PANEL, SEARCH_AGENT, TARGET, page, play


@pytest.mark.parametrize("name", ["direct", "cot", "react", SEARCH_AGENT, "search-o1"])
def test_without_search_nothing_is_known_and_with_it_all_that_is_found(name: str) -> None:
    dialect, make = AGENTS[name]
    row = play(name, make, 0.0, limit=3, dialect=dialect)
    assert row["em"] == row["f1"] == (0.0 if name in ("direct", "cot") else 1.0)
    assert row["evidence"] == row["em"]
    assert play(name, make, 1.0, limit=3, dialect=dialect)["em"] == 0.0


def test_a_documents_text_is_read_once_by_search_o1_and_in_every_later_prompt_by_the_others() -> None:
    rows = {
        name: play(name, AGENTS[name][1], 0.0, limit=3, dialect="search_r1") for name in (SEARCH_AGENT, "search-o1")
    }
    o1, plain = rows["search-o1"], rows[SEARCH_AGENT]
    assert o1["searches"] == plain["searches"]
    assert o1["model_calls"] == plain["model_calls"] + plain["searches"]
    assert o1["longest_prompt"] < plain["longest_prompt"]


def test_noise_takes_the_evidence_away() -> None:
    dialect, make = AGENTS[SEARCH_AGENT]
    row = play(SEARCH_AGENT, make, 0.0, limit=3, dialect=dialect, simulation={"start": 1.0, "end": 1.0})
    assert row["em"] == row["evidence"] == 0.0


def test_the_stored_table_has_every_agent_and_level_of_noise() -> None:
    stored = json.loads(TARGET.read_text(encoding="ascii"))
    found = [(row["overlooks"], row["agent"], row["search"]) for row in stored["rows"]]
    agents = [(name, "BM25") for name in AGENTS] + [(SEARCH_AGENT, f"simulated, noise {noise}") for noise in NOISE]
    assert found == [(overlooks, *agent) for overlooks in OVERLOOKS for agent in agents]
    assert stored["panel"] == PANEL
    assert TARGET.with_name("README.md").read_text(encoding="utf-8") == page(stored)
    assert {row["questions"] for row in stored["rows"]} == {192}
