"""The file beside a trained model's weights: every field has its type, or an error names the file and the field."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.pretrained import PromptingConfig, read_agent_file, write_agent_file
from creditflow.envs.errors import DataError

FIELDS = [
    (part, field.name)
    for part, kind in (("prompting", PromptingConfig), ("sampling", Sampling))
    for field in fields(kind)
]


def test_settings_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    for prompting in (PromptingConfig(), PromptingConfig(chat_options={"enable_thinking": False}, window=3)):
        write_agent_file(path, prompting, Sampling(temperature=0.5))
        assert read_agent_file(path) == (prompting, Sampling(temperature=0.5))


@pytest.mark.parametrize(("part", "name"), FIELDS)
def test_a_field_of_another_type_is_rejected_with_file_and_name(part: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    write_agent_file(path, PromptingConfig(), Sampling())
    whole = json.loads(path.read_text())
    for value in ([["x"]], [], True, {"format_version": 1}, "text", 0.25):
        default = whole[part][name]
        if type(value) is type(default) or (isinstance(value, dict) and default is None):
            continue
        path.write_text(json.dumps({**whole, part: {**whole[part], name: value}}))
        with pytest.raises(DataError, match=rf"agent\.json: .*{part}\.{name} must be of type"):
            read_agent_file(path)


@pytest.mark.parametrize("part", ["prompting", "sampling"])
def test_a_section_that_is_no_object_is_rejected(part: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    values: tuple[Any, ...] = ([], "x", 3, None)
    for value in values:
        path.write_text(json.dumps({"format_version": 2, "prompting": {}, "sampling": {}, part: value}))
        with pytest.raises(DataError, match=r"agent\.json"):
            read_agent_file(path)
