"""Processes that run jobs: ended at once by an error of the caller, blamed on the code that ends them, and errors that name a plug-in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.shared_data import ROOT

# the first job ends, the second never does
INTERRUPTED = """
import os, signal, sys, threading
from creditflow.train.rollout.workers.pool import open_job_pool

def wait(seconds):
    threading.Event().wait(seconds)
    return os.getpid()

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with open_job_pool(2) as pool:
            pids = [pool.submit(wait, 0.0).result()]
            pool.submit(wait, None)
            os.killpg(0, signal.SIGINT)
            pool.submit(wait, 0.0).result()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
"""
# the parent has begun to read a result that is too large for a pipe, and is interrupted before the worker has sent all of it
HALF_SENT = """
import sys, threading
from multiprocessing.connection import Connection
from creditflow.train.rollout.workers.pool import open_job_pool

SIZE = 1 << 24
begun, ended = threading.Event(), threading.Event()
receive = Connection._recv

def held(self, size):
    if size > SIZE:
        begun.set()
        ended.wait(60)
    return receive(self, size)

def large(): return bytes(SIZE)

if __name__ == "__main__":
    Connection._recv = held
    try:
        with open_job_pool(1) as pool:
            pool.submit(large)
            assert begun.wait(60)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    ended.set()
"""
FAILING = """
class Two(Exception):
    def __init__(self, one, two):
        super().__init__("of two")

class Own:
    name = "own"
    def act(self, views): return []

def stop(): raise StopIteration
def leave(): raise SystemExit(0)
def two(): raise Two(1, 2)
def pipe(): raise BrokenPipeError(32, "Broken pipe")
def die():
    import os
    os._exit(0)
def killed():
    import os
    os.kill(os.getpid(), 9)
"""
RUN = """
import sys
from creditflow.envs.plugins import load_code
from creditflow.train.rollout.workers.pool import open_job_pool
from creditflow.agents.registry import load_agent

if __name__ == "__main__":
    load_agent("own.py:Own")
    for name in sys.argv[1:]:
        try:
            with open_job_pool(2) as pool:
                pool.submit(load_code(f"own.py:{name}").target).result()
        except Exception as error:
            print(type(error).__name__, error)
"""


def run(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(program, "utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "program.py", *words],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=environment, start_new_session=True,
    )  # fmt: skip


def test_an_interrupt_while_a_result_is_sent_ends_the_command(tmp_path: Path) -> None:
    done = run(tmp_path, HALF_SENT)
    assert (done.returncode, done.stderr) == (0, "interrupted\n")


def test_an_interrupt_waits_for_no_job_and_workers_are_silent(tmp_path: Path) -> None:
    done = run(tmp_path, INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "interrupted\n")


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("failing")
    (folder / "own.py").write_text(FAILING, "utf-8")
    names = ["stop", "leave", "two", "pipe", "die", "killed"]
    done = run(folder, RUN, *names)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return dict(zip(names, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stop", "failed: StopIteration"),
        ("leave", "ended the program, by sys.exit(0)"),
        ("two", "failed: Two: of two"),
        ("pipe", "failed: BrokenPipeError: [Errno 32] Broken pipe"),
    ],
)
def test_an_error_of_a_plug_in_names_it_after_its_way_to_the_parent(
    name: str, message: str, messages: dict[str, str]
) -> None:
    assert messages[name].startswith("PluginError agent 'own' (")
    assert "own.py, line" in messages[name]
    assert message in messages[name]


@pytest.mark.parametrize(("name", "ending"), [("killed", f"signal {signal.SIGKILL:d}"), ("die", "")])
def test_a_worker_that_ends_is_an_error_that_names_what_may_have_ended_it(
    name: str, ending: str, messages: dict[str, str]
) -> None:
    assert messages[name].startswith("WorkerError a worker was lost (")
    assert ending in messages[name]
    assert "agent 'own' (own.py:Own)" in messages[name]
