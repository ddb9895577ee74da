"""The merging table, counted by hand, and the command that prints it and writes merged logs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from helpers.episodes.builders import group, walk

from creditflow.envs.errors import ConfigError, DataError
from creditflow.train.analyses.merging import MERGES, Merge, merging, merging_json, merging_text
from creditflow.train.cli import main
from creditflow.wrappers.trajectory import read_groups, write_jsonl

HALL = "You stand in the long hall of an old house, with doors on both sides"
YARD = "A garden behind the wall; an apple tree grows there beside a well with a rope"


def texted(m, texts):
    turns = tuple(replace(turn, text_key=text) for turn, text in zip(m.turns, texts, strict=False))
    return replace(m, turns=turns, final_text_key=texts[-1])


def log():
    """Two texts of s; t and u look alike. Turns in s: 3, in t: 1, in u: 1."""
    return [
        group(
            texted(walk("s t g"), [HALL, YARD, "done"]),
            texted(walk("s u x", "failed"), [HALL + ". It rains", YARD + "!", "lost"]),
            texted(walk("s x", "failed"), [HALL, "lost"]),
        )
    ]


def test_the_partition_counted_by_hand():
    rows: dict[str, Any] = {
        row.merge: row.partition for row in merging(log(), ["state", "none", "hash@0.7"], ["gigpo"])
    }
    assert rows["state"] == (3, 0.0, 0.0, 1.0, 1.0, 0)
    # four texts, two of them of s; of the three pairs of turns in s one has equal texts
    assert rows["none"] == pytest.approx((4, 0.0, 0.6, 1.0, 1 / 3, 0))
    # two texts: t and u are one, s is whole; of the 3 + 1 pairs three are in one true state
    assert rows["hash@0.7"] == (2, 0.4, 0.0, 0.75, 1.0, 2)


def test_the_true_states_agree_with_themselves_and_merging_restores_step_credit():
    rows = {row.merge: row.schemes["gigpo"] for row in merging(log(), ["state", "none", "hash@0.7"], ["gigpo"])}
    assert tuple(rows["state"]) == pytest.approx((0.6, 1.0, 0.0, 1.0))
    assert rows["none"].coverage == pytest.approx(0.4)
    assert rows["none"].same == pytest.approx(2 / 3)
    assert rows["hash@0.7"].same == 1.0
    assert rows["hash@0.7"].coverage == 1.0  # t and u are compared, although they are two states


def test_the_released_merge_changes_the_graph_only():
    rows = merging(log(), ["released@0.8", "difflib@0.8"], ["gigpo", "graphgpo"])
    assert list(rows[0].schemes) == ["graphgpo"]
    assert rows[0].partition == rows[1].partition
    assert rows[0].partition.comparisons > 0
    assert rows[0].schemes["graphgpo"].coverage < rows[1].schemes["graphgpo"].coverage


def test_both_outputs_name_every_merge():
    rows = merging(log(), MERGES)
    text, data = merging_text(rows), merging_json(rows)
    assert [row["merge"] for row in data] == list(MERGES)
    assert all(name in text for name in MERGES)
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hsah@0.9", "did you mean 'hash'"),
        ("hash", "unknown merge"),
        ("hash@high", r"threshold in \(0, 1\]"),
        ("difflib@0", r"threshold in \(0, 1\]"),
        ("stat", "did you mean 'state'"),
    ],
)
def test_a_malformed_merge_is_rejected(text, message):
    with pytest.raises(ConfigError, match=message):
        Merge.parse(text)


def test_schemes_without_states_and_empty_logs_are_rejected():
    with pytest.raises(ConfigError, match="scheme with states 'grpo'"):
        merging(log(), ["none"], ["grpo"])
    with pytest.raises(DataError, match="no turns"):
        merging([group(replace(walk("s t", "env_error"), turns=(), final_state_key="s"))])


def test_the_command_prints_tables_and_writes_merged_logs(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    write_jsonl(path, log())
    assert main(["merge", str(path), "--by", "hash@0.7", "--schemes", "gigpo"]) == 0
    assert "hash@0.7" in capsys.readouterr().out
    assert main(["merge", str(path), "--by", "hash@0.7", "--json", "--out", str(tmp_path / "table.json")]) == 0
    assert json.loads((tmp_path / "table.json").read_text())[0]["states"] == 2
    assert main(["merge", str(path), "--by", "hash@0.7", "--write", str(tmp_path / "merged.jsonl")]) == 0
    assert "4 text states with turns, 2 after" in capsys.readouterr().err
    (merged,) = read_groups(tmp_path / "merged.jsonl")
    assert {turn.text_key for turn in merged.turns} == {HALL, YARD}


@pytest.mark.parametrize("arguments", [[], ["--by", "hash@0.9", "--by", "hash@0.8"], ["--by", "none"]])
def test_writing_needs_one_merge_that_changes_keys(arguments, tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    write_jsonl(path, log())
    assert main(["merge", str(path), "--write", str(tmp_path / "out.jsonl"), *arguments]) == 2
    assert "--by" in capsys.readouterr().err
    assert not (tmp_path / "out.jsonl").exists()
