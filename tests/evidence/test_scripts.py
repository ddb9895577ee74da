"""The parts of the package that studies and their pages name by text still exist."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from evidence.engines.ray_cluster import KILLED_ROLLOUT
from evidence.engines.vllm_engine import REPLACED
from helpers.shared_data import ROOT

from creditflow.agents.backends.engine import Engine

PAGES = Path(__file__).parent
MODULES = sorted(
    {name for page in PAGES.rglob("*.md") for name in re.findall(r"python -m ([\w.]+)", page.read_text("utf-8"))}
)


SCRIPTS = sorted(
    {
        name
        for page in (*PAGES.rglob("*.md"), *(ROOT / "envs").rglob("*.md"), *(ROOT / "train").rglob("*.md"))
        for name in re.findall(r"python (tests/[\w./]+\.py)", page.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_commands_of_the_evidence_pages_name_scripts_that_exist(script):
    assert (ROOT / script).is_file()


@pytest.mark.parametrize("module", MODULES)
def test_the_commands_of_the_evidence_pages_name_modules_that_run(module):
    spec = find_spec(module)
    assert spec is not None
    runs = find_spec(f"{module}.__main__") if spec.submodule_search_locations else spec
    assert runs is not None


def test_the_script_of_the_killed_driver_exists():
    assert KILLED_ROLLOUT.is_file()


def test_the_engine_has_the_methods_that_failed_weight_pushes_replace():
    assert [name for name in REPLACED if not callable(getattr(Engine, name, None))] == []
