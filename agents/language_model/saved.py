"""``creditflow_agent.json``: how a trained model was spoken to, kept beside its weights."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.pretrained import Speech
from creditflow.envs.errors import ConfigError, DataError, unknown_name
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json
from creditflow.envs.reading.limits import SETTINGS

__all__ = ["read_agent_file", "write_agent_file"]

VERSION = 1


def write_agent_file(path: Path, speech: Speech, sampling: Sampling) -> None:
    """Write speech and sampling."""
    data = {"format_version": VERSION, "speech": asdict(speech), "sampling": asdict(sampling)}
    with atomic_writer(path) as stream:
        stream.write(json.dumps(data, indent=1) + "\n")


def read_agent_file(path: Path) -> tuple[Speech, Sampling]:
    """Speech and sampling of a trained model.

    Raises:
        DataError: not such a file, or of another version.
    """
    data: Any = read_json(path, SETTINGS)
    try:
        if data["format_version"] != VERSION:
            raise DataError(f"{path}: format_version {data['format_version']!r}, this reader knows {VERSION}")
        for part, kind in (("speech", Speech), ("sampling", Sampling)):
            for name in data[part]:
                if name not in {field.name for field in fields(kind)}:
                    raise unknown_name(f"field of {part}", name, (field.name for field in fields(kind)))
        return Speech(**data["speech"]), Sampling(**data["sampling"])
    except (ValueError, KeyError, TypeError, ConfigError) as error:  # whatever a dataclass says to what it is given
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: does not say how to speak to the model: {error}") from error
