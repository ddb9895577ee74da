"""Importing the package, its commands and its agents imports no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = (
    "creditflow",
    "creditflow.agents",
    "creditflow.agents.language_model.pretrained",
    "creditflow.agents.language_model.agent",
    "creditflow.agents.language_model.chat",
    "creditflow.wrappers.canonical.sentence_embedder",
    "creditflow.train.commands.train",
    "creditflow.train.commands.eval",
    "creditflow.train.commands.annotate",
    "creditflow.train.annotate.critic",
    "creditflow.train.annotate.likelihood",
    "creditflow.train.settings.reading",
)


def test_no_torch_before_it_is_used() -> None:
    code = f"import sys, importlib\nfor name in {MODULES!r}: importlib.import_module(name)\n" + (
        "heavy = {'torch', 'transformers', 'tokenizers'} & set(sys.modules)\nassert not heavy, heavy"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_missing_extra_names_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from creditflow.agents.language_model import pretrained
    from creditflow.envs.errors import MissingExtraError

    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"torch is not installed; .*\[train\]"):
        pretrained.make_hf_agent("somewhere")
