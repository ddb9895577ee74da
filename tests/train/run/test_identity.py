"""What determines a rollout is stored with it, and a log is resumed under the same settings only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditflow.envs.errors import DataError
from creditflow.train.cli import main
from creditflow.train.commands.rollout import identity_of
from creditflow.train.rollout.workers.play import RolloutSpec
from creditflow.train.run.identity import OtherRunError, agent_identity, identity_text, read_run_file, require_same
from creditflow.wrappers.records.jsonl import read_jsonl

BASE = {
    "--env": "sokoban", "--panel": "small-v1:valid", "--agent": "noisy:0.4", "--group-size": "2", "--seed": "3", "--limit": "3",
}  # fmt: skip
# other settings of the resumed command, and the message on the field that differs
OTHERWISE: list[tuple[dict[str, str], list[str], str]] = [
    ({"--panel": "small-v1:test"}, [], 'env.options.panel: stored "small-v1:valid", requested "small-v1:test"'),
    ({"--agent": "noisy:0.5"}, [], 'agent.name: stored "noisy:0.4", requested "noisy:0.5"'),
    ({"--group-size": "3"}, [], "group_size: stored 2, requested 3"),
    ({"--seed": "4"}, [], "seed: stored 3, requested 4"),
    ({"--invalid-actions": "terminate"}, [], 'invalid_actions: stored "keep", requested "terminate"'),
    ({"--env-set": "max_steps=7"}, [], "env.options.max_steps: stored nothing, requested 7"),
    ({}, ["--oracle"], "oracle: stored false, requested true"),
]


def command(out: Path, otherwise: Mapping[str, str] = {}, *more: str) -> list[str]:
    named = [text for pair in {**BASE, **otherwise}.items() for text in pair]
    return ["rollout", *named, *more, "--out", str(out)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "log.jsonl"
    assert main(command(path)) == 0
    return path.read_bytes()


@pytest.fixture
def out(whole: bytes, tmp_path: Path) -> Path:
    """An interrupted log: its last line is torn."""
    (tmp_path / "log.jsonl.partial").write_bytes(whole[: len(whole) * 3 // 5])
    return tmp_path / "log.jsonl"


@pytest.mark.parametrize(("otherwise", "more", "message"), OTHERWISE)
def test_a_log_is_not_resumed_under_other_settings(
    out: Path, otherwise: dict[str, str], more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    left = out.with_name("log.jsonl.partial").read_bytes()
    assert main([*command(out, otherwise), *more, "--resume"]) == 3
    error = capsys.readouterr().err
    assert message in error
    assert len([line for line in error.splitlines() if "stored" in line]) == 1
    assert out.with_name("log.jsonl.partial").read_bytes() == left
    assert not out.exists()


def test_every_field_that_differs_is_listed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    otherwise = {"--seed": "4", "--agent": "random", "--invalid-actions": "retry"}
    assert main([*command(out, otherwise), "--oracle", "--resume"]) == 3
    error = capsys.readouterr().err
    assert [line.split(":")[0].strip() for line in error.splitlines()[1:]] == [
        "agent.name",
        "invalid_actions",
        "oracle",
        "seed",
    ]


def test_workers_and_more_tasks_do_not_make_another_run(out: Path, whole: bytes, tmp_path: Path) -> None:
    assert main([*command(out), "--workers", "2", "--resume"]) == 0
    assert out.read_bytes() == whole
    longer = {"--limit": "5"}
    assert main([*command(out, longer), "--resume"]) == 0  # also if the log is complete
    assert main(command(tmp_path / "five.jsonl", longer)) == 0
    assert out.read_bytes() == (tmp_path / "five.jsonl").read_bytes()
    assert main([*command(out), "--resume"]) == 3  # it would lose two groups
    assert out.read_bytes() == (tmp_path / "five.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["run.json", "levels.txt"])
def test_a_changed_file_that_the_environment_reads_makes_another_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = tmp_path / name
    levels.write_text("######\n#@ $.#\n#    #\n######\n")
    given = ["rollout", "--env-set", f"levels={levels}", "--group-size", "2", "--out", str(tmp_path / "log.jsonl")]
    assert main(given) == 0
    levels.write_text("######\n#@ $.#\n######\n")
    assert main([*given, "--resume"]) == 3
    assert f"files.{levels}: stored" in capsys.readouterr().err


def test_a_log_without_the_identity_of_its_run_is_read_but_not_resumed(
    whole: bytes, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = b"".join(
        json.dumps({k: v for k, v in json.loads(line).items() if k != "provenance"}).encode() + b"\n"
        for line in whole.splitlines()
    )
    out.with_name("log.jsonl.partial").write_bytes(old)
    assert main([*command(out), "--resume"]) == 3
    assert "does not record its run" in capsys.readouterr().err
    out.write_bytes(old)
    assert main(["audit", str(out)]) == 0
    assert main(["credit", "--scheme", "grpo", str(out)]) == 0


@pytest.mark.parametrize("text", ["[1]", "{", '{"seed": NaN}', '{"seed": ' * 5000 + "1" + "}" * 5000])
def test_a_damaged_identity_is_reported_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="ascii")
    with pytest.raises(DataError, match=r"run\.json: the identity of its run"):
        read_run_file(tmp_path)


def test_every_trajectory_contains_the_identity_of_its_run(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(whole)
    for trajectory in read_jsonl(tmp_path / "log.jsonl"):
        run = json.loads(trajectory.provenance["run"])
        assert run["env"] == {"id": "creditflow/Sokoban-v0", "options": {"panel": "small-v1:valid"}}
        assert {"creditflow", "log_format", "prompts"} <= run["versions"].keys()


OTHER: dict[str, Any] = {
    "env": "webshop", "options": {"max_steps": 3}, "agent": "random", "model": {"prompt": "action-v1"}, "group_size": 5, "invalid_actions": "retry",
    "oracle": True, "rewards": ("em",), "seed": 9,
}  # fmt: skip


def test_every_field_of_a_rollout_is_part_of_its_identity() -> None:
    spec = RolloutSpec(env="sokoban", agent="noisy:0.1")
    # a new field must be added above; the digests of plug-ins are among the versions (tests/train/commands/plugins), and
    # where pictures are stored changes no episode
    assert OTHER.keys() == {field.name for field in fields(RolloutSpec)} - {"run", "pictures"}
    require_same(identity_of(spec), identity_of(replace(spec, pictures="elsewhere")), "log")
    for name, value in OTHER.items():
        other = replace(spec, **{name: value})
        with pytest.raises(OtherRunError, match="stored"):
            require_same(identity_of(spec), identity_of(other), "log")


@pytest.mark.parametrize(
    "prefix", ["hf:", "vllm:", "react:hf:", "reflexion:vllm:", "openai:http://127.0.0.1:1/v1#name@"]
)
@pytest.mark.parametrize(
    "file", ["weights.safetensors", "creditflow_agent.json", "tokenizer.json", "chat_template.jinja"]
)
def test_the_identity_of_a_model_is_the_content_of_its_folder(prefix: str, file: str, tmp_path: Path) -> None:
    for name in ("weights.safetensors", "creditflow_agent.json", "tokenizer.json", "chat_template.jinja"):
        (tmp_path / name).write_text("before")
    before = agent_identity(f"{prefix}{tmp_path}")
    assert before == agent_identity(f"{prefix}{tmp_path}")
    (tmp_path / file).write_text("after")
    with pytest.raises(OtherRunError, match="model: stored"):
        require_same(before, agent_identity(f"{prefix}{tmp_path}"), "log")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=8,
)
identities = st.dictionaries(st.text(max_size=5), plain, max_size=4)


@given(identities, identities)
def test_two_identities_are_the_same_exactly_if_their_texts_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    stored = json.loads(identity_text(one))
    require_same(stored, one, "here")
    if identity_text(one) != identity_text(other):
        with pytest.raises(OtherRunError, match=r"^here was written with other settings"):
            require_same(stored, other, "here")
