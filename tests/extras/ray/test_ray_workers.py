"""Rollouts on a local Ray cluster of two nodes: the results of one process, with a worker, a node or the command killed."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import make
from creditflow.train.commands import rollout
from creditflow.train.rollout.workers import ray_cluster
from creditflow.train.rollout.workers.play import RolloutSpec, RolloutWorker, write_task
from creditflow.train.rollout.workers.pool import WorkerError, run_in_order
from creditflow.train.rollout.workers.ray_cluster import RayExecutor
from creditflow.wrappers.records.jsonl import read_jsonl

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install -e '.[ray]'"),
    # Ray's own start-up warns of changes in later versions
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning",
                               "ignore::pytest.PytestUnraisableExceptionWarning"),
]  # fmt: skip
SPEC = RolloutSpec(env="sokoban", options={"panel": "small-v1:valid"}, agent="noisy:0.5", group_size=2, seed=3)


COMMAND = ("--agent", "noisy:0.5", "--panel", "small-v1:valid", "--limit", "8", "--group-size", "2", "--seed", "3")
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
SOURCE = str(Path(creditflow.__file__).parents[1])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", SOURCE)  # an installed package does not need it
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        made.add_node(**NODE)
        made.wait_for_nodes()
        yield made
        import ray

        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def items() -> list[str]:
    source = make("sokoban", panel="small-v1:valid").unwrapped.tasks  # type: ignore[attr-defined]  # an AgentEnv
    return [write_task(source.get(task_id)) for task_id in source.task_ids()[:10]]


@pytest.fixture(scope="module")
def played(items: list[str]) -> list[str]:
    """The results of one process."""
    worker = RolloutWorker(SPEC)
    return [worker.play(item) for item in items]


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """Processes that a test stopped, so that they cannot finish their item; killed afterwards."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Failing:
    """Ray whose first results are errors.

    Args:
        error: what is raised.
        times: number of such results.
        starting: the results of starting actors are errors, not those of items.
    """

    def __init__(self, error: Exception, *, times: int = 1, starting: bool = False) -> None:
        self.error, self.left, self.starting = error, times, starting

    def __getattr__(self, name: str) -> Any:
        import ray

        return getattr(ray, name)

    def get(self, ref: Any) -> Any:
        import ray

        answer = ray.get(ref)
        if self.left and isinstance(answer[0], int if self.starting else bytes):
            self.left -= 1
            raise self.error
        return answer


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    rollout.add_arguments(parser)
    return rollout.run(parser.parse_args(arguments))


def test_with_a_killed_actor_every_item_is_played_once(
    cluster: Any, items: list[str], played: list[str], stopped: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    executor = RayExecutor(SPEC, 2, cluster.address)
    assert len(set(executor.nodes())) == 2  # one actor on each
    stopped.append(executor.pids()[1])
    os.kill(stopped[0], signal.SIGSTOP)
    results = run_in_order(executor, items)
    found = [next(results)]
    os.kill(stopped[0], signal.SIGKILL)
    found += results
    assert found == played
    assert "a worker was lost (Ray:" in capsys.readouterr().err


def test_with_a_lost_node_every_item_is_played_once(
    cluster: Any, items: list[str], played: list[str], stopped: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    third = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    executor = RayExecutor(SPEC, 3, cluster.address)
    if executor.nodes()[0] == third.node_id:  # the first item is awaited: it must not go to the stopped actor
        executor._idle.append(executor._idle.pop(0))
    [victim] = [pid for pid, node in zip(executor.pids(), executor.nodes(), strict=True) if node == third.node_id]
    stopped.append(victim)
    os.kill(victim, signal.SIGSTOP)
    results = run_in_order(executor, items)
    found = [next(results)]
    cluster.remove_node(third, allow_graceful=False)
    found += results  # its actor's replacement finds no CPU and delays nothing
    assert found == played
    assert "a worker was lost (Ray:" in capsys.readouterr().err


def test_a_result_that_was_lost_after_it_was_finished_is_played_again(
    cluster: Any, items: list[str], played: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.exceptions import ObjectLostError

    executor = RayExecutor(SPEC, 2, cluster.address)
    executor.nodes()  # all actors have started

    executor._ray = Failing(ObjectLostError("00" * 28, None, ""))
    assert list(run_in_order(executor, items)) == played
    assert "a worker was lost (Ray:" in capsys.readouterr().err


@pytest.mark.parametrize("starting", [True, False])
@pytest.mark.parametrize("kind", ["OutOfMemoryError", "NodeDiedError"])
def test_an_actor_that_ran_out_of_memory_or_lost_its_node_is_replaced(
    cluster: Any, items: list[str], played: list[str], kind: str, starting: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray.exceptions

    executor = RayExecutor(SPEC, 2, cluster.address)
    executor._ray = Failing(getattr(ray.exceptions, kind)("node low on memory"), starting=starting)
    assert list(run_in_order(executor, items)) == played
    assert ("a worker was lost (Ray: node low on memory)" in capsys.readouterr().err) != starting
    assert executor._ray.left == 0


def test_actors_that_run_out_of_memory_repeatedly_are_reported(cluster: Any, items: list[str]) -> None:
    from ray.exceptions import OutOfMemoryError

    executor = RayExecutor(SPEC, 1, cluster.address)
    executor._ray = Failing(OutOfMemoryError("node low on memory"), times=9, starting=True)
    with pytest.raises(WorkerError, match="3 Ray actors in succession did not start: node low on memory"):
        list(run_in_order(executor, items))


@pytest.mark.parametrize("kind", ["ActorUnschedulableError", "RuntimeEnvSetupError"])
def test_a_cluster_that_can_never_run_an_actor_is_reported(cluster: Any, items: list[str], kind: str) -> None:
    import ray.exceptions

    executor = RayExecutor(SPEC, 1, cluster.address)
    executor._ray = Failing(getattr(ray.exceptions, kind)("no such label"), starting=True)
    with pytest.raises(WorkerError, match=r"(?s)cannot run an actor.*no such label"):
        list(run_in_order(executor, items))


def test_a_slow_reader_stops_the_dispatch(cluster: Any, items: list[str], played: list[str]) -> None:
    begun: list[int] = []

    class Observed(RayExecutor):
        def submit(self, item: int, text: str) -> None:
            begun.append(item)
            super().submit(item, text)

    found = []
    for given, result in enumerate(run_in_order(Observed(SPEC, 2, cluster.address), items, max_in_flight=3)):
        assert max(begun) < given + 3
        found.append(result)
    assert found == played


def test_with_more_actors_than_cpus_those_that_started_play(cluster: Any, items: list[str], played: list[str]) -> None:
    assert list(run_in_order(RayExecutor(SPEC, 5, cluster.address), items)) == played


def test_actors_that_cannot_start_are_reported(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Any, spec: str) -> None:
        raise OSError("no such drive on this node")

    fails.__module__ = "__main__"  # by value, so that the cluster gets this one
    broken = type("Broken", (), {"__init__": fails, "__module__": "__main__", "location": lambda self: (0, "")})
    monkeypatch.setattr(ray_cluster, "_Actor", broken)
    with pytest.raises(WorkerError, match="no such drive"):
        list(run_in_order(RayExecutor(SPEC, 2, cluster.address), ["{}"]))


def test_a_killed_command_resumes_to_the_file_of_one_process(cluster: Any, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert call(*COMMAND, "--out", str(whole)) == 0
    command = [*COMMAND, "--ray", cluster.address, "--workers", "2", "--out", str(out)]
    script = Path(__file__).parents[2] / "helpers" / "processes" / "killed_rollout.py"
    killed = subprocess.run(
        [sys.executable, str(script), "3", *command], env=os.environ | {"PYTHONPATH": SOURCE}, timeout=120, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(read_jsonl(tmp_path / "out.jsonl.partial"))) == 3 * 2
    assert call(*command, "--resume") == 0
    assert out.read_bytes() == whole.read_bytes()
    places = [(t.task_id, t.replica) for t in read_jsonl(out)]
    assert len(set(places)) == len(places) == 8 * 2


def test_an_address_without_a_cluster_is_reported() -> None:
    with pytest.raises(ConfigError, match="cannot reach a Ray cluster"):
        RayExecutor(SPEC, 1, "127.0.0.1:1")
