"""Rollouts on a local Ray cluster of two nodes: the results of one process, with a worker or a whole node killed."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import make
from creditflow.train.commands import rollout
from creditflow.train.workers.play import Player, RolloutSpec, write_task
from creditflow.train.workers.pool import run_units
from creditflow.train.workers.ray_cluster import RayExecutor

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'creditflow[ray]'"),
    # Ray's own start-up warns of what it will change in later versions
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning",
                               "ignore::pytest.PytestUnraisableExceptionWarning"),
]  # fmt: skip
SPEC = RolloutSpec(env="sokoban", options={"panel": "small-v1:valid"}, agent="noisy:0.5", group_size=2, seed=3)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one CPU each."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3] / "src"))  # what an installed package needs not
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    memory = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=memory)
    made.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    made.wait_for_nodes()
    yield made
    import ray

    ray.shutdown()
    made.shutdown()


@pytest.fixture
def units() -> list[str]:
    source = make("sokoban", panel="small-v1:valid").unwrapped.tasks  # type: ignore[attr-defined]  # an AgentEnv
    return [write_task(source.get(task_id)) for task_id in source.task_ids()[:10]]


def test_a_killed_actor_loses_and_doubles_nothing(
    cluster: Any, units: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    player = Player(SPEC)
    executor = RayExecutor(SPEC, 2, cluster.address)
    assert len(executor.nodes()) == 2  # one actor on each
    victim = executor.pids()[1]
    os.kill(victim, signal.SIGSTOP)  # it gets a task and cannot finish it
    results = run_units(executor, units)
    found = [next(results)]
    os.kill(victim, signal.SIGKILL)
    found += results
    assert found == [player.answer(unit) for unit in units]
    assert "a worker was lost (Ray:" in capsys.readouterr().err


def test_the_command_writes_the_file_of_one_process(cluster: Any, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    rollout.add_arguments(parser)
    common = ["--agent", "noisy:0.5", "--panel", "small-v1:valid", "--limit", "5", "--group-size", "2"]
    for name, more in (("one", []), ("ray", ["--ray", cluster.address, "--workers", "2"])):
        assert rollout.run(parser.parse_args([*common, *more, "--out", str(tmp_path / name)])) == 0
    assert (tmp_path / "ray").read_bytes() == (tmp_path / "one").read_bytes()


def test_an_address_without_a_cluster_is_told() -> None:
    with pytest.raises(ConfigError, match="cannot reach a Ray cluster"):
        RayExecutor(SPEC, 1, "127.0.0.1:1")
