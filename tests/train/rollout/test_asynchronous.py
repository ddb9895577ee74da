"""The engine without lock step: the groups and reports of lock step whatever takes how long, and no thread that remains."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty
from typing import Any

import pytest
from helpers.episodes.schedules import Schedule
from helpers.episodes.wandering import LEVELS, AskedAgent, WanderingAgent, alive, makers, tasks
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.base import Decision, View
from creditflow.agents.scripted import NoisyExpert
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.train.rollout import asynchronous
from creditflow.train.rollout.asynchronous import AsynchronousEngine
from creditflow.train.rollout.engine import Budget, RolloutEngine, RolloutReport
from creditflow.train.settings.branching import BranchConfig
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.jsonl_lines import encode_line


def text(groups: Sequence[Group]) -> list[str]:
    """Groups as the lines of a log, tokens included."""
    return [encode_line(one, group.task) for group in groups for one in group.trajectories]


@given(
    schedule=st.integers(0, 2**32),
    seed=st.integers(0, 50),
    count=st.integers(1, 3),
    size=st.integers(1, 3),
    budget=st.builds(Budget, turns=st.sampled_from([0, 3]), tokens=st.sampled_from([0, 20])),
    asked=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_groups_and_reports_are_those_of_lock_step_whatever_takes_how_long(
    schedule: int, seed: int, count: int, size: int, budget: Budget, asked: bool
) -> None:
    make, _ = makers(size)
    expected, report = RolloutReport(), RolloutReport()
    lock_step = WanderingAgent()
    groups = RolloutEngine(make, budget).play(lock_step, tasks(count), seed=seed, report=expected)
    moments = Schedule(schedule)
    agent = AskedAgent(moments) if asked else WanderingAgent()
    with pytest.MonkeyPatch.context() as patched:
        moments.install(patched)
        engine = AsynchronousEngine(make, budget, threads=3)
        again = engine.play(agent, tasks(count), seed=seed, report=report)
    assert text(again) == text(groups)
    assert report == expected


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


class Soon:
    """Threads and queue of an engine whose steps end one by one, when it waits for one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pending: list[Callable[[], None]] = []
        self._events: list[Any] = []
        self.put = self._events.append
        monkeypatch.setattr(asynchronous, "ThreadPoolExecutor", lambda *_args, **_options: self)
        monkeypatch.setattr(asynchronous, "SimpleQueue", lambda: self)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._pending.append(lambda: future.set_result(function(*arguments)))
        return future

    def get(self, timeout: float | None = None) -> Any:
        assert self._pending, "no step is under way: the engine waits for nothing"
        self._pending.pop(0)()
        return self._events.pop(0)

    def get_nowait(self) -> Any:
        raise Empty

    def shutdown(self, **_options: Any) -> None: ...


def test_a_batch_waits_for_steps_that_are_about_to_end_and_for_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    Soon(monkeypatch)

    class Walker(WanderingAgent):
        def decide(self, view: View) -> Decision:
            return Decision("left")

    agent = Walker()
    engine = AsynchronousEngine(lambda: GroupEnv(lambda: SokobanEnv(level=LEVELS[0], max_steps=5), size=3))
    engine.play(agent, tasks(2), seed=4)
    assert agent.batches == [6] * 5


def test_an_engine_needs_a_thread_and_episodes_that_do_not_branch() -> None:
    make, branch = makers(2)
    with pytest.raises(ConfigError, match="move in lock step"):
        AsynchronousEngine(make, branching=BranchConfig(max_trajectories=4), make_branch=branch)
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

    source = make().tasks
    chosen = [source.get(task_id) for task_id in source.task_ids()[:4]]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads change places in the middle of whatever they share
    try:
        threaded = AsynchronousEngine(make, threads=8).play(NoisyExpert(0.4), chosen, seed=2)
    finally:
        sys.setswitchinterval(before)
    assert threaded == RolloutEngine(make).play(NoisyExpert(0.4), chosen, seed=2)
