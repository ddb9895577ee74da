"""The engine without lock step: the groups and reports of lock step whatever takes how long, and no thread that remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.episodes.schedules import Schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.backends.base import GenerationError, GenerationRequest, Sampling
from creditflow.agents.backends.openai_backend import OpenAIBackend
from creditflow.agents.base import Decision, Question, TurnTokens, View
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, EpisodeError
from creditflow.envs.http.client import JsonClient
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.train.rollout.asynchronous import AsynchronousEngine
from creditflow.train.rollout.branching import BranchConfig
from creditflow.train.rollout.engine import Budget, RolloutEngine, RolloutReport
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import encode_line

LEVELS = ("########\n#@ $  .#\n#      #\n########", "#######\n#@ $ .#\n#     #\n#######", "#####\n#@$.#\n#####")


class WanderingAgent:
    """Moves at random, with a random number of tokens; sometimes uncertain, unparsable, or out of context."""

    name = "wanderer"

    def __init__(self) -> None:
        self.forks: list[tuple[str, int]] = []
        self.batches: list[int] = []

    def act(self, views: Sequence[View]) -> list[Decision]:
        self.batches.append(len(views))
        return [self.decide(view) for view in views]

    def decide(self, view: View) -> Decision:
        draw = view.rng.integers(1000, size=4)
        if draw[0] < 40:
            return Decision("", stop="token_limit")
        count = 1 + int(draw[1]) % 4
        tokens = TurnTokens(
            np.full(3, len(view.turns), np.int32), np.arange(count, dtype=np.int32), -np.ones(count, np.float32),
            entropies=np.full(count, 0.5 + draw[2] / 500, np.float32),
        )  # fmt: skip
        reason = "no tags" if draw[3] < 100 else ""
        return Decision(("right", "down", "left", "up")[int(draw[3]) % 4], invalid_reason=reason, tokens=tokens)

    def fork(self, parent: AgentEnv[Any, Any, Any], child: AgentEnv[Any, Any, Any], turns: int) -> None:
        assert parent.get_state() == child.get_state()
        self.forks.append((parent.get_state(), turns))


class AskedAgent(WanderingAgent):
    """The same, asked about single episodes; answers come when the schedule says so."""

    def __init__(self, schedule: Any) -> None:
        super().__init__()
        self._schedule = schedule

    @contextmanager
    def questions(self) -> Iterator[Callable[[View], Question | Decision]]:
        def ask(view: View) -> Question | Decision:
            decision = self.decide(view)
            if decision.stop is not None:
                return decision
            return Question(self._schedule.submit(lambda: decision), lambda answer: answer)

        yield ask


class Fragile(SokobanEnv):
    """Fails at random moments that its own random stream decides, and sometimes cannot start from a snapshot."""

    def _apply(self, action: int) -> Any:
        if action == 0 and self.elapsed_steps % 3 == 2:
            raise OSError(f"step {self.elapsed_steps} of {self.get_state()[:40]}")
        return super()._apply(action)


def tasks(count: int) -> list[Task]:
    return [SokobanEnv(level=level).tasks.sample(np.random.default_rng(0)) for level in LEVELS[:count]]


def makers(size: int) -> tuple[Callable[[], GroupEnv], Callable[[], GroupEnv]]:
    def make(members: int) -> GroupEnv:
        return GroupEnv(lambda: Fragile(level=LEVELS[0], max_steps=7), size=members)

    return lambda: make(size), lambda: make(1)


def text(groups: Sequence[Group]) -> list[str]:
    """Groups as the lines of a log, tokens included."""
    return [encode_line(one, group.task) for group in groups for one in group.trajectories]


BRANCHING = st.builds(
    BranchConfig,
    max_trajectories=st.integers(4, 9),
    base=st.sampled_from([0.2, 0.6]),
    branches_per_turn=st.integers(1, 2),
    max_tokens=st.sampled_from([0, 30, 90]),
    fill_group=st.booleans(),
    entropy_tokens=st.just(2),
)


@given(
    schedule=st.integers(0, 2**32),
    seed=st.integers(0, 50),
    count=st.integers(1, 3),
    size=st.integers(1, 3),
    budget=st.builds(Budget, turns=st.sampled_from([0, 3]), tokens=st.sampled_from([0, 20])),
    branching=st.none() | BRANCHING,
    asked=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_groups_and_reports_are_those_of_lock_step_whatever_takes_how_long(
    schedule: int, seed: int, count: int, size: int, budget: Budget, branching: BranchConfig | None, asked: bool
) -> None:
    make, branch = makers(size)
    options: dict[str, Any] = {"branching": branching, "make_branch": branch}
    expected, report = RolloutReport(), RolloutReport()
    lock_step = WanderingAgent()
    groups = RolloutEngine(make, budget, **options).play(lock_step, tasks(count), seed=seed, report=expected)
    moments = Schedule(schedule)
    agent = AskedAgent(moments) if asked else WanderingAgent()
    with pytest.MonkeyPatch.context() as patched:
        moments.install(patched)
        engine = AsynchronousEngine(make, budget, threads=3, **options)
        again = engine.play(agent, tasks(count), seed=seed, report=report)
    assert text(again) == text(groups)
    assert report == expected
    assert sorted(agent.forks) == sorted(lock_step.forks)


def alive() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("creditflow")}


class Waiting(SokobanEnv):
    """The first episode's first step waits until another episode has taken three."""

    others_third = threading.Event()
    first: Any = None

    def _apply(self, action: int) -> Any:
        if self is Waiting.first:
            assert self.others_third.wait(60), "the other episode waited for this one"
        elif self.elapsed_steps == 2:
            self.others_third.set()
        return super()._apply(action)


@pytest.mark.parametrize("asked", [True, False])
def test_an_episode_does_not_wait_for_another_ones_step(asked: bool) -> None:
    made: list[Waiting] = []

    def make() -> Waiting:
        made.append(Waiting(level=LEVELS[0], max_steps=6))
        return made[-1]

    class Now:
        def submit(self, function: Callable[[], Any]) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(function())
            return future

    group = GroupEnv(make, size=2)
    Waiting.others_third.clear()
    Waiting.first = made[0]
    agent = AskedAgent(Now()) if asked else WanderingAgent()
    [played] = AsynchronousEngine(lambda: group, threads=2).play(agent, tasks(1), seed=4)
    assert [len(t.turns) for t in played.trajectories] == [6, 6]
    assert not alive()


def test_views_that_wait_together_are_one_batch() -> None:
    agent = WanderingAgent()
    make, _ = makers(4)
    AsynchronousEngine(make, Budget(turns=1), threads=2).play(agent, tasks(2), seed=4)
    assert agent.batches == [8]


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


def test_what_on_turn_raises_ends_the_call() -> None:
    seen: list[tuple[int, int]] = []

    def on_turn(running: int, total: int) -> None:
        seen.append((running, total))
        if len(seen) == 3:
            raise KeyboardInterrupt

    make, _ = makers(3)
    with pytest.raises(KeyboardInterrupt):
        AsynchronousEngine(make, threads=2).play(WanderingAgent(), tasks(2), seed=4, on_turn=on_turn)
    assert [total for _, total in seen] == [6] * 3
    assert not alive()


def test_an_engine_needs_a_thread() -> None:
    with pytest.raises(ConfigError, match="at least one thread"):
        AsynchronousEngine(lambda: GroupEnv("sokoban", size=1), threads=0)


WORLD = {"articles": 400, "questions": 6, "seed": 3}
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "sokoban": {"panel": "small-v1:valid", "max_steps": 8},
    "webshop": {"panel": "standard-v1:valid", "max_steps": 8},
    "alfworld": {"panel": "standard-v1:valid", "max_steps": 12},
    "wikisearch": {"world": WORLD},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments_that_share_catalogues_indexes_and_caches_can_be_stepped_in_threads(name: str) -> None:
    def make() -> GroupEnv:
        return GroupEnv(name, size=4, oracle=True, **ENVIRONMENTS[name])

    source = make().members[0].base.tasks
    chosen = [source.get(task_id) for task_id in source.task_ids()[:4]]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change places in the middle of whatever they share
    try:
        threaded = AsynchronousEngine(make, threads=8).play(NoisyExpert(0.4), chosen, seed=2)
    finally:
        sys.setswitchinterval(before)
    assert threaded == RolloutEngine(make).play(NoisyExpert(0.4), chosen, seed=2)
