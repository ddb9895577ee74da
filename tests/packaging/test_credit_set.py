"""The published credit set is as its page describes it."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from importlib.resources import files

import pytest

FOLDER = files("creditflow.assets") / "credit_set"


def test_the_turns_have_the_fields_and_values_that_the_page_describes() -> None:
    lines = gzip.decompress((FOLDER / "sample-v1.jsonl.gz").read_bytes()).splitlines()
    turns = [json.loads(line) for line in lines[1:]]
    assert Counter(turn["env"] for turn in turns) == dict.fromkeys(
        ("sokoban", "alfworld", "webshop", "wikisearch"), 125
    )
    assert {turn["policy"] for turn in turns} == {"random", "expert", "noisy:0.3", "ngram"}
    rows = re.findall(r"^\| (`.*?`) \|", (FOLDER / "README.md").read_text("utf-8"), flags=re.M)
    described = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert {name for turn in turns for name in turn} == described
    for turn in turns:
        assert turn["advantage"] == pytest.approx(turn["q"] - turn["v"], abs=2e-6)  # six digits are stored
        assert (turn["kind"] == "exact") == (turn["env"] == "sokoban")
