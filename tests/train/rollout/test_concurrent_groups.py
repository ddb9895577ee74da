"""Groups of an iteration that are played some at a time: the same groups, and never more episodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.episodes.builders import group, walk
from helpers.episodes.wandering import LEVELS, Fragile, WanderingAgent, tasks
from hypothesis import given, settings
from hypothesis import strategies as st

from creditflow.agents.base import Decision, View
from creditflow.envs.errors import ConfigError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import NoGroupError, RolloutEngine
from creditflow.train.rollout.task_sampling import SampledGroups, sample_groups
from creditflow.train.settings.rollout import RolloutConfig
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.records.jsonl_lines import encode_line

SIZE = 3
ABSENT = SokobanEnv(level="######\n#@ $.#\n######").tasks.sample(np.random.default_rng(0))


class Absent(Fragile):
    """Has no file of one task."""

    def _start(self, task: Task) -> None:
        if task == ABSENT:
            raise OSError("no level file")
        super()._start(task)


def sampled(
    concurrent: int, seed: int, wanted: int, among: list[Task], dynamic: bool = False
) -> tuple[SampledGroups, list[int]]:
    """The groups of an iteration, and the numbers of episodes that took a turn together."""
    agent = WanderingAgent()
    rollout = RolloutConfig(
        tasks=wanted, group_size=SIZE, concurrent_groups=concurrent, dynamic_sampling=dynamic, attempts=2
    )
    engine = RolloutEngine(lambda: GroupEnv(lambda: Absent(level=LEVELS[0], max_steps=7), size=SIZE))
    found = sample_groups(engine, agent, among, rollout, seed=seed, iteration=1)
    found.report.errors.sort()  # by time otherwise
    return found, agent.batches


@given(seed=st.integers(0, 30), concurrent=st.integers(1, 4), wanted=st.integers(1, 5), dynamic=st.booleans())
@settings(max_examples=25, deadline=None)
def test_groups_do_not_depend_on_how_many_are_played_at_once(
    seed: int, concurrent: int, wanted: int, dynamic: bool
) -> None:
    expected, _ = sampled(0, seed, wanted, tasks(3), dynamic)
    found, together = sampled(concurrent, seed, wanted, tasks(3), dynamic)
    lines = [[encode_line(t, g.task) for g in one.groups for t in g.trajectories] for one in (found, expected)]
    assert lines[0] == lines[1]
    assert (found.report, found.discarded) == (expected.report, expected.discarded)
    assert max(together) <= concurrent * SIZE


class Ending(WanderingAgent):
    """Its episodes end at once, so that every group is without signal."""

    def decide(self, view: View) -> Decision:
        return Decision("", stop="token_limit")


class Noting(RolloutEngine):
    """Notes the iteration and the tasks of every call."""

    def __init__(self) -> None:
        super().__init__(lambda: GroupEnv(lambda: SokobanEnv(level=LEVELS[0]), size=SIZE))
        self.rounds: list[tuple[int, set[str]]] = []

    def play(self, agent: Any, tasks: Any, **options: Any) -> Any:
        self.rounds.append((options["iteration"], {task.task_id for task in tasks}))
        return super().play(agent, tasks, **options)


def test_every_attempt_of_every_iteration_has_random_numbers_of_its_own_and_drops_are_counted() -> None:
    engine = Noting()
    rollout = RolloutConfig(tasks=2, group_size=SIZE, dynamic_sampling=True, attempts=3)
    for iteration in range(3):
        found = sample_groups(engine, Ending(), tasks(2), rollout, seed=0, iteration=iteration)
        assert (len(found.groups), found.discarded) == (2, 4)  # two attempts without signal; the last is kept
    assert len(engine.rounds) == len({number for number, _ in engine.rounds}) == 9


@pytest.mark.parametrize("resample", ["other", "same"])
def test_a_dropped_group_is_sampled_again_of_another_task_or_of_the_same(resample: Any) -> None:
    engine = Noting()
    rollout = RolloutConfig(tasks=1, group_size=SIZE, dynamic_sampling=True, resample=resample, attempts=10)
    sample_groups(engine, Ending(), tasks(4), rollout, seed=0, iteration=0)
    assert len(engine.rounds) == 10  # every group is dead: all attempts are made
    assert (len(set().union(*(ids for _, ids in engine.rounds))) == 1) == (resample == "same")


class Prepared(RolloutEngine):
    """Plays groups of two episodes with these returns, in order."""

    def __init__(self, *returns: tuple[float, float]) -> None:
        self.groups = [group(*(walk("s g", reward=x) for x in pair)) for pair in returns]

    def play(self, agent: Any, tasks: Any, **options: Any) -> Any:
        return self.groups


@pytest.mark.parametrize(("share", "kept"), [(1.0, [0, 1, 2, 3]), (0.5, [1]), (0.75, [0, 1]), (0.9, [0, 1, 3])])
def test_the_filter_by_variance_keeps_the_groups_that_vary_most(share: float, kept: list[int]) -> None:
    engine = Prepared((0.0, 1.0), (0.0, 2.0), (1.0, 1.0), (1.0, 2.0))  # deviations √½, √2, 0, √½
    rollout = RolloutConfig(tasks=4, group_size=2, variance_share=share)
    found = sample_groups(engine, WanderingAgent(), tasks(4), rollout, seed=0, iteration=0)
    assert found.groups == [engine.groups[i] for i in kept]
    assert found.discarded == 4 - len(kept)


@pytest.mark.parametrize(
    "changes", [{"variance_share": 0.0}, {"variance_share": 1.1}, {"dynamic_sampling": True}, {"group_size": 1}]
)
def test_a_filter_by_variance_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.variance_share"):
        RolloutConfig(**{"variance_share": 0.9, **changes})


def test_groups_that_cannot_start_leave_the_others() -> None:
    found, together = sampled(1, 0, 4, [*tasks(3), ABSENT])
    assert len(found.groups) == 3
    assert found.report.groups_failed_to_start == 1
    assert max(together) == SIZE


def test_an_iteration_without_a_group_is_an_error() -> None:
    with pytest.raises(NoGroupError, match="no group could start; the first error was"):
        sampled(1, 0, 1, [ABSENT])


def test_a_negative_number_is_an_error() -> None:
    with pytest.raises(ConfigError, match="concurrent_groups"):
        RolloutConfig(concurrent_groups=-1)
