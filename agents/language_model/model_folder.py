"""What a model folder says about speaking to the model; files only, no weights."""

from __future__ import annotations

from pathlib import Path

from creditflow.agents.backends.base import Sampling
from creditflow.agents.language_model.model_files import model_settings
from creditflow.agents.language_model.pretrained import AGENT_FILE, Speech
from creditflow.agents.language_model.saved import read_agent_file
from creditflow.envs.errors import DataError

__all__ = ["folder_ends", "folder_speech"]


def folder_speech(folder: str, speech: Speech | None, sampling: Sampling | None) -> tuple[Speech, Sampling]:
    """How to speak to the model: what is given, else what the trainer wrote, else the defaults."""
    saved = Path(folder) / AGENT_FILE
    kept = read_agent_file(saved) if saved.is_file() else (Speech(), Sampling())
    return speech or kept[0], sampling or kept[1]


def folder_ends(folder: str) -> tuple[int, ...]:
    """End tokens that the folder's generation configuration names.

    Raises:
        DataError: not such a file.
    """
    path = Path(folder) / "generation_config.json"
    if not path.is_file():
        return ()
    ends = model_settings(path).get("eos_token_id")
    ids = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if not all(type(number) is int for number in ids):
        raise DataError(f"{path}: expected token ids under eos_token_id, got {str(ends)[:60]}")
    return tuple(ids)
