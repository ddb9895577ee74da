"""Rollouts without lock step whose sampler, server or environment fails: an error with its reason, and no thread remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.wandering import LEVELS, AskedAgent, WanderingAgent, alive, makers, tasks

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.agents.base import Decision, Question, View
from creditflow.envs.errors import EpisodeError
from creditflow.envs.http.client import JsonClient
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.train.rollout.asynchronous import AsynchronousEngine
from creditflow.wrappers.group_env import GroupEnv


class Dying:
    """A sampler that answers some requests, and fails the next."""

    def __init__(self, answers: int) -> None:
        self._left = answers

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._left -= 1
        if self._left < 0:
            future.set_exception(GenerationError("the engine was killed by signal 9"))
        else:
            future.set_result(function())
        return future


@pytest.mark.parametrize("answers", [0, 1, 7])
def test_an_engine_that_dies_in_an_episode_is_an_error_and_leaves_no_thread(answers: int) -> None:
    make, _ = makers(3)
    with pytest.raises(GenerationError, match="killed by signal 9"):
        AsynchronousEngine(make, threads=2).play(AskedAgent(Dying(answers)), tasks(2), seed=4)
    assert not alive()


SERVER = """
import os, signal, sys
from helpers.servers.openai_server import openai_server, toy
answered = 0
def complete(body):
    global answered
    answered += 1
    if answered == 9:
        os.kill(os.getpid(), signal.SIGKILL)
    return toy(body)
with openai_server(complete) as served:
    print(served.url, flush=True)
    sys.stdin.read()
"""


class Served:
    """Walks left, whatever the server answers."""

    name = "served"

    def __init__(self, backend: OpenAIBackend) -> None:
        self.backend = backend

    def act(self, views: Sequence[View]) -> list[Decision]:
        raise AssertionError("the engine asks one by one")

    @contextmanager
    def questions(self) -> Iterator[Callable[[View], Question | Decision]]:
        with self.backend.answering(Sampling(max_new_tokens=4), frozenset({1})) as submit:

            def ask(view: View) -> Question:
                request = GenerationRequest(
                    view.env, np.arange(3, 4 + len(view.turns), dtype=np.int32), view.rng.random(4)
                )
                return Question(submit(request), lambda completion: Decision("left", response=str(completion.ids)))

            yield ask


def test_a_server_that_is_killed_in_an_episode_is_an_error_and_leaves_no_thread() -> None:
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}", "PYTHONSAFEPATH": "1"}
    make, _ = makers(3)
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        client = JsonClient([server.stdout.readline().strip()], timeout=30.0, max_attempts=2, backoff=0.0)
        agent = Served(OpenAIBackend(client, "toy", lambda _text: np.zeros(1, np.int32)))
        with pytest.raises(GenerationError, match="no valid response from the server"):
            AsynchronousEngine(make, threads=2).play(agent, tasks(2), seed=4)
        assert server.wait(60) == -signal.SIGKILL
    assert not alive()


def test_a_bug_in_a_step_is_raised_and_leaves_no_thread() -> None:
    class Wrong(SokobanEnv):
        def _apply(self, action: int) -> Any:
            raise EpisodeError("no such state")

    engine = AsynchronousEngine(lambda: GroupEnv(lambda: Wrong(level=LEVELS[0]), size=2), threads=2)
    with pytest.raises(EpisodeError, match="no such state"):
        engine.play(WanderingAgent(), tasks(1), seed=4)
    assert not alive()
