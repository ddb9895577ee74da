"""Rollouts on processes: the file of one process, with a worker killed or the run interrupted half-way."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import creditflow
from creditflow.envs.errors import ConfigError
from creditflow.envs.registration import make
from creditflow.train.commands import rollout
from creditflow.train.rollout.workers.play import RolloutSpec, play_text, write_task
from creditflow.train.rollout.workers.pool import JobPool, WorkerError, run_in_order
from creditflow.wrappers.records.jsonl import read_jsonl

COMMAND = ("--agent", "noisy:0.5", "--panel", "small-v1:valid", "--limit", "8", "--group-size", "2", "--seed", "3")
SPEC = RolloutSpec(env="sokoban", options={"panel": "small-v1:valid"}, agent="noisy:0.5", group_size=2, seed=3)


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    rollout.add_arguments(parser)
    return rollout.run(parser.parse_args(arguments))


@pytest.fixture
def items() -> list[str]:
    source = make("sokoban", panel="small-v1:valid").unwrapped.tasks  # type: ignore[attr-defined]  # an AgentEnv
    return [write_task(source.get(task_id)) for task_id in source.task_ids()[:8]]


def test_a_spec_reads_back_as_it_was_written() -> None:
    spec = RolloutSpec(env="wikisearch", options={"panel": "a:b"}, rewards=("em", "f1"), oracle=True)
    assert RolloutSpec.from_text(spec.to_text()) == spec


def test_workers_write_the_file_of_one_process(tmp_path: Path) -> None:
    assert call(*COMMAND, "--out", str(tmp_path / "one.jsonl")) == 0
    assert call(*COMMAND, "--workers", "3", "--out", str(tmp_path / "three.jsonl")) == 0
    assert (tmp_path / "three.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    places = [(t.task_id, t.replica) for t in read_jsonl(tmp_path / "three.jsonl")]
    assert len(set(places)) == len(places) == 16


def workers() -> set[int]:
    return {process.pid for process in multiprocessing.active_children() if process.pid is not None}


def test_a_killed_worker_is_an_error(items: list[str]) -> None:
    results = run_in_order(partial(play_text, SPEC.to_text()), items, 2)
    next(results)
    victim = min(workers())
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(WorkerError, match=f"process {victim}: signal {signal.SIGKILL:d}"):
        list(results)


def test_closing_leaves_no_process_behind(items: list[str]) -> None:
    results = run_in_order(partial(play_text, SPEC.to_text()), items, 2)
    next(results)
    pids = workers()
    assert pids
    results.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_command_resumes_to_the_same_file_and_leaves_no_worker_behind(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert call(*COMMAND, "--out", str(whole)) == 0
    command = [*COMMAND, "--workers", "2", "--out", str(out)]
    source = str(Path(creditflow.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).parents[2] / "helpers" / "processes" / "killed_rollout.py"), "3", *command],
        env=os.environ | {"PYTHONPATH": source}, start_new_session=True,
    ) as killed:  # fmt: skip
        assert killed.wait(timeout=120) == -signal.SIGKILL
    assert len(list(read_jsonl(tmp_path / "out.jsonl.partial"))) == 3 * 2
    assert call(*command, "--resume") == 0
    assert out.read_bytes() == whole.read_bytes()
    with pytest.raises(ProcessLookupError):  # its workers read the end of their pipes and end
        for _ in range(500):
            os.killpg(killed.pid, 0)
            time.sleep(0.02)


def test_a_slow_reader_stops_the_dispatch(items: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    submit = JobPool.submit

    def noted(pool: JobPool, function: Any, item: str) -> Any:
        begun.append(item)
        return submit(pool, function, item)

    monkeypatch.setattr(JobPool, "submit", noted)
    for given, _ in enumerate(run_in_order(partial(play_text, SPEC.to_text()), items, 1)):
        assert len(begun) <= given + 4
    assert begun == items


def test_an_error_in_a_worker_is_reported() -> None:
    spec = RolloutSpec(env="sokoban", agent="hf:")
    with pytest.raises(ConfigError, match="missing model path"):
        list(run_in_order(partial(play_text, spec.to_text()), ["{}"], 1))


def test_a_wrong_agent_is_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'noisy'"):
        call("--agent", "noisi", "--limit", "2", "--workers", "2", "--out", str(tmp_path / "out.jsonl"))
    assert not list(tmp_path.iterdir())
