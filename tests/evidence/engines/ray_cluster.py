"""Rollouts on two Ray nodes while a process, a node and the driver are killed: episodes lost and doubled, and speed.

  python tests/evidence/engines/ray_cluster.py --out tests/evidence/engines/ray.json

Every file is compared with that of one process, byte for byte. Speeds are measured on the same tasks once the workers are
ready. Wall-clock time is unreliable on a shared machine, and two nodes on one machine share its cores: CPU seconds show the
cost of distributing the tasks.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import creditflow
from creditflow.envs.files.atomic import write_json
from creditflow.envs.registration import make
from creditflow.train.arguments.parser import CommandParser
from creditflow.train.bench.report.provenance import provenance
from creditflow.train.rollout.workers.play import RolloutSpec, RolloutWorker, read_group, write_task
from creditflow.train.rollout.workers.pool import Executor, run_in_order
from creditflow.train.rollout.workers.processes import ProcessExecutor
from creditflow.train.rollout.workers.ray_cluster import RayExecutor

ROOT = Path(__file__).parents[3]
SOURCE = str(Path(creditflow.__file__).parents[1])
KILLED_ROLLOUT = ROOT / "tests" / "helpers" / "processes" / "killed_rollout.py"
PANEL, AGENT, SIZE, SEED = "standard-v1:train", "noisy:0.5", 16, 3
ROUNDS = 3
SPEC = RolloutSpec(env="sokoban", options={"panel": PANEL}, agent=AGENT, group_size=SIZE, seed=SEED)
NODE = {"num_cpus": 2, "object_store_memory": 80 * 2**20}


@contextlib.contextmanager
def two_nodes() -> Iterator[tuple[Any, Any]]:
    """A cluster and its second node, of two CPUs each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    try:
        yield cluster, second
    finally:
        import ray

        ray.shutdown()
        cluster.shutdown()


def compared(results: list[str], expected: list[str]) -> dict[str, Any]:
    """Episodes lost and doubled, by (task, replica), and whether the texts are equal."""
    found = Counter((t.task_id, t.replica) for text in results for t in read_group(text).trajectories)
    wanted = Counter((t.task_id, t.replica) for text in expected for t in read_group(text).trajectories)
    return {
        "episodes": found.total(),
        "lost": (wanted - found).total(),
        "doubled": (found - wanted).total(),
        "bytes_equal_to_one_process": results == expected,
    }


def with_faults(items: list[str], expected: list[str]) -> dict[str, Any]:
    """Four actors on two nodes: a process of the first is killed at a third of the run, the second node at two thirds."""
    messages, most_ahead, max_in_flight = io.StringIO(), 0, 8
    with two_nodes() as (cluster, second), contextlib.redirect_stderr(messages):
        begun: list[int] = []

        class Recording(RayExecutor):
            def submit(self, item: int, text: str) -> None:
                begun.append(item)
                super().submit(item, text)

        executor = Recording(SPEC, 4, cluster.address)
        nodes = executor.nodes()
        first = [pid for pid, node in zip(executor.pids(), nodes, strict=True) if node != second.node_id]
        results = []
        for index, result in enumerate(run_in_order(executor, items, max_in_flight=max_in_flight)):
            most_ahead = max(most_ahead, max(begun) - index + 1)
            results.append(result)
            if index == len(items) // 3:
                os.kill(first[0], signal.SIGKILL)
            if index == 2 * len(items) // 3:
                cluster.remove_node(second, allow_graceful=False)
    return {
        "nodes": len(set(nodes)),
        "actors": len(nodes),
        "actors_on_the_lost_node": nodes.count(second.node_id),
        "kills": ["SIGKILL of an actor's process", "the second node, without warning"],
        "groups_played_again": messages.getvalue().count("its task is played again"),
        **compared(results, expected),
        "most_units_begun_and_not_given": most_ahead,
        "bound": max_in_flight,
    }


def killed_driver(groups: int, folder: Path) -> dict[str, Any]:
    """``creditflow rollout --ray``, killed after a quarter of the groups, and the same command with --resume."""
    common = [
        "--agent",
        AGENT,
        "--panel",
        PANEL,
        "--limit",
        str(groups),
        "--group-size",
        str(SIZE),
        "--seed",
        str(SEED),
    ]
    whole, out = folder / "whole.jsonl", folder / "out.jsonl"
    environment = os.environ | {"PYTHONPATH": SOURCE}
    rollout = [sys.executable, "-m", "creditflow.train", "rollout"]
    subprocess.run([*rollout, *common, "--out", str(whole)], env=environment, check=True, capture_output=True)
    with two_nodes() as (cluster, _):
        command = [*common, "--ray", cluster.address, "--workers", "4", "--out", str(out)]
        script = [sys.executable, str(KILLED_ROLLOUT), str(groups // 4)]
        killed = subprocess.run([*script, *command], env=environment, check=False, capture_output=True)
        again = subprocess.run(
            [*rollout, *command, "--resume"], env=environment, check=True, capture_output=True, text=True
        )
    return {
        "ended_by_signal": -killed.returncode,
        "resumed": next(line for line in again.stderr.splitlines() if line.startswith("resuming")),
        "bytes_equal_to_one_process": out.read_bytes() == whole.read_bytes(),
    }


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time that these processes and this one have used so far, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # user, system
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def speed(executor: Executor, pids: Sequence[int], items: list[str], expected: list[str]) -> tuple[float, float]:
    """Episodes per second, and CPU seconds of workers and driver per 1000, in the last three quarters of the tasks.

    By then every worker is ready and has made its environments. Ray's own daemons are not counted.
    """
    results, warm = run_in_order(executor, items), len(items) // 4
    groups = [next(results) for _ in range(warm)]
    began, worked = time.perf_counter(), cpu_seconds(pids)
    groups += itertools.islice(results, len(items) - warm - 1)
    episodes = SIZE * (len(items) - warm - 1)  # after the last one the workers are gone
    found = episodes / (time.perf_counter() - began), 1000 * (cpu_seconds(pids) - worked) / episodes
    groups += results
    if groups != expected:
        raise RuntimeError("the workers returned other groups than one process")
    return found


def speeds(items: list[str], expected: list[str]) -> dict[str, dict[str, float]]:
    """Medians of ``ROUNDS`` rounds, in each of which every executor is measured once."""
    found: dict[str, list[tuple[float, float]]] = {"one process": [], "--workers 2": [], "--ray, 2 actors": []}
    worker = RolloutWorker(SPEC)
    for _ in range(ROUNDS):
        began, worked, episodes = time.perf_counter(), time.process_time(), SIZE * len(items)
        for item in items:
            worker.play(item)
        found["one process"].append(
            (episodes / (time.perf_counter() - began), 1000 * (time.process_time() - worked) / episodes)
        )
        processes = ProcessExecutor(SPEC, 2)
        found["--workers 2"].append(speed(processes, processes.pids, items, expected))
        with two_nodes() as (cluster, _):
            actors = RayExecutor(SPEC, 2, cluster.address)
            found["--ray, 2 actors"].append(speed(actors, actors.pids(), items, expected))
    return {
        name: {
            "episodes_per_second": round(statistics.median(speed for speed, _ in values), 1),
            "cpu_seconds_per_1000_episodes": round(statistics.median(cpu for _, cpu in values), 3),
        }
        for name, values in found.items()
    }


def main() -> int:
    """Run all parts and write the results."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=240, help="groups to play (default 240)")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    args = parser.parse_args()
    os.environ |= {"PYTHONPATH": SOURCE, "RAY_USAGE_STATS_ENABLED": "0"}
    import ray

    source = make("sokoban", panel=PANEL).unwrapped.tasks  # type: ignore[attr-defined]  # an AgentEnv
    items = [write_task(source.get(task_id)) for task_id in source.task_ids()[: args.groups]]
    worker = RolloutWorker(SPEC)
    expected = [worker.play(item) for item in items]
    report: dict[str, Any] = {
        "what": "rollouts on two local Ray nodes: lost, doubled, resumed, speed",
        "provenance": provenance([], SEED)
        | {
            "command": f"python tests/evidence/engines/ray_cluster.py --groups {args.groups} --out FILE",
            "ray": ray.__version__,
        },
        "load_average_at_the_start": round(os.getloadavg()[0], 1),
        "workload": {"env": "sokoban", "panel": PANEL, "agent": AGENT, "groups": len(items), "group_size": SIZE},
        "faults": with_faults(items, expected),
        "speed, medians of 3 rounds": speeds(items, expected),
    }
    with tempfile.TemporaryDirectory() as folder:
        report["killed_driver"] = killed_driver(len(items), Path(folder))
    write_json(args.out, report)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
