"""From rollouts of WikiSearch to the credit of the entity schemes, by command."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from creditflow.train.cli import main
from creditflow.wrappers.records.jsonl import read_groups


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wiki") / "log.jsonl.gz"
    assert main(["rollout", "--env", "wikisearch", "--agent", "noisy:0.4", "--limit", "5", "--group-size", "4",
                 "--out", str(path)]) == 0  # fmt: skip
    return path


def scored(log: Path, out: Path, *settings: str) -> list[dict[str, Any]]:
    assert main(["credit", *settings, str(log), "--out", str(out)]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_a_log_carries_what_the_entity_schemes_read(log: Path) -> None:
    groups = read_groups(log)
    assert len(groups) == 5
    for group in groups:
        assert {"entities", "edges", "answer_node", "answers", "text"} <= set(group.task)
        searched = [turn for turn in group.turns if turn.queries]
        assert searched
        assert all(turn.observation for turn in group.turns)
        assert any(turn.entities and turn.doc_ids for turn in searched)
    with gzip.open(log, "rt") as stream:
        payloads = sum("task" in json.loads(line) for line in stream)
    assert payloads == 5  # once a group


@pytest.mark.parametrize("scheme", ["gdcr", "sapo"])
def test_rollouts_of_wikisearch_get_step_credit(scheme: str, log: Path, tmp_path: Path) -> None:
    lines = scored(log, tmp_path / "out.jsonl", "--scheme", scheme)
    assert len(lines) == 20
    assert sum(sum(line["step_rewards"]) for line in lines) > 0.0
    assert any(any(line["step_advantages"]) for line in lines)
    assert {line["aggregation"] for line in lines} == {"trajectory_mean"}


def test_rollouts_of_wikisearch_get_entity_credit_where_the_answer_is_wrong(log: Path, tmp_path: Path) -> None:
    # scripted agents have no thoughts: the papers' control looks at the whole trajectory
    lines = scored(log, tmp_path / "a.jsonl", "--scheme", "egrpo", "--set", "scope=trajectory")
    plain = scored(log, tmp_path / "b.jsonl", "--scheme", "egrpo", "--set", "match_weight=0.0")
    assert [line["outcome_advantage"] for line in lines] != [line["outcome_advantage"] for line in plain]
    assert {line["aggregation"] for line in lines} == {"group_token_mean"}


@pytest.mark.parametrize("scheme", ["gdcr", "sapo", "egrpo"])
def test_a_log_without_entities_is_an_error_that_names_the_scheme(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "sokoban.jsonl"
    assert main(["rollout", "--agent", "random", "--limit", "1", "--group-size", "2", "--out", str(log)]) == 0
    assert main(["credit", "--scheme", scheme, str(log)]) != 0
    assert f"{scheme} is not applicable to group" in capsys.readouterr().err


def test_the_audit_reports_where_the_entity_schemes_give_credit(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(log)]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert all("%" in rows[scheme] for scheme in ("gdcr", "sapo", "egrpo"))


def test_semantics_is_an_option_or_a_parameter_as_in_make(log: Path, tmp_path: Path) -> None:
    by_option = scored(log, tmp_path / "a.jsonl", "--scheme", "grpo", "--semantics", "release")
    assert scored(log, tmp_path / "b.jsonl", "--scheme", "grpo", "--set", "semantics=release") == by_option
    assert scored(log, tmp_path / "c.jsonl", "--scheme", "grpo") != by_option


def test_released_semantics_of_pica_name_the_annotation_that_a_log_lacks(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["credit", "--scheme", "pica", "--set", "semantics=release", str(log)]) == 1
    assert "value.pica" in capsys.readouterr().err
