"""The parts of the package that experiments name by text still exist."""

from __future__ import annotations

from experiments.ray_cluster import KILLED_ROLLOUT
from experiments.vllm_engine import REPLACED

from creditflow.agents.backends.engine import Engine


def test_the_script_of_the_killed_driver_exists():
    assert KILLED_ROLLOUT.is_file()


def test_the_engine_has_the_methods_that_failed_weight_pushes_replace():
    assert [name for name in REPLACED if not callable(getattr(Engine, name, None))] == []
