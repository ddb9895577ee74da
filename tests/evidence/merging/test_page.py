"""The committed evidence on merging: made by commands that still exist, at a recorded commit."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from creditflow.train.analyses.merging import Merge
from creditflow.train.cli import COMMANDS

EVIDENCE = json.loads(Path(__file__).with_name("results.json").read_text(encoding="utf-8"))


def test_the_commit_and_the_command_are_recorded():
    assert len(EVIDENCE["commit"]) >= 7
    assert EVIDENCE["command"] == "python tests/merging_evidence.py"  # its name at that commit


@pytest.mark.parametrize("part", EVIDENCE["parts"], ids=lambda part: part["part"])
def test_rows_match_their_commands(part):
    words = [shlex.split(command) for command in part["commands"]]
    assert [(w[0], w[1] in COMMANDS) for w in words] == [("creditflow", True)] * 2
    merges = [words[1][i + 1] for i, word in enumerate(words[1]) if word == "--by"]
    assert [row["merge"] for row in part["rows"]] == [Merge.parse(name).name for name in merges]


@pytest.mark.parametrize("part", EVIDENCE["parts"], ids=lambda part: part["part"])
def test_the_true_states_agree_with_themselves(part):
    (truth,) = (row for row in part["rows"] if row["merge"] == "state")
    assert (truth["aliased"], truth["fragmented"], truth["precision"], truth["recall"]) == (0.0, 0.0, 1.0, 1.0)
    assert all(a["same"] == 1.0 and a["rank"] == pytest.approx(1.0) for a in truth["schemes"].values())
