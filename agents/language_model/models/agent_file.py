"""``creditflow_agent.json``: the prompting and sampling settings a model was trained with, kept beside its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.models.pretrained import PromptingConfig
from creditflow.envs.errors import ConfigError, DataError, short_repr, unknown_name_error
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.reading.limits import SETTINGS

__all__ = ["read_agent_file", "write_agent_file"]

VERSION = 2


def write_agent_file(path: Path, prompting: PromptingConfig, sampling: Sampling) -> None:
    """Write the prompting and sampling settings of a trained model."""
    data = {"format_version": VERSION, "prompting": asdict(prompting), "sampling": asdict(sampling)}
    with atomic_writer(path) as stream:
        stream.write(json.dumps(data, indent=1) + "\n")


def read_agent_file(path: Path) -> tuple[PromptingConfig, Sampling]:
    """Read the prompting and sampling settings of a trained model.

    Raises:
        DataError: the file is malformed, or of another version.
    """
    data: Any = read_json(path, SETTINGS)
    try:
        if data["format_version"] != VERSION:
            raise DataError(f"{path}: format_version {data['format_version']!r}, this reader knows {VERSION}")
        for section, kind in (("prompting", PromptingConfig), ("sampling", Sampling)):
            _check(section, data[section], kind())
        return PromptingConfig(**data["prompting"]), Sampling(**data["sampling"])
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ConfigError,
    ) as error:  # raised by the dataclasses for wrong values
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not the prompting and sampling settings of a model: {error}") from error


def _check(part: str, given: Mapping[str, Any], defaults: Sampling | PromptingConfig) -> None:
    """Raise ConfigError unless the given settings have the names and types of the defaults."""
    names = [field.name for field in fields(defaults)]
    for name, value in given.items():
        if name not in names:
            raise unknown_name_error(f"field of {part}", name, names)
        default = getattr(defaults, name)
        kinds = (dict, type(None)) if default is None else (int, float) if type(default) is float else (type(default),)
        if type(value) not in kinds:
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise ConfigError(f"{part}.{name} must be of type {expected}, got {short_repr(value)}")
