"""Groups of an iteration that are played some at a time: the same groups, and never more episodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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


def test_every_attempt_of_every_iteration_has_random_numbers_of_its_own_and_drops_are_counted() -> None:
    numbers: list[int] = []

    class Noting(RolloutEngine):
        def play(self, agent: Any, tasks: Any, **options: Any) -> Any:
            numbers.append(options["iteration"])
            return super().play(agent, tasks, **options)

    class Ending(WanderingAgent):
        def decide(self, view: View) -> Decision:
            return Decision("", stop="token_limit")

    engine = Noting(lambda: GroupEnv(lambda: SokobanEnv(level=LEVELS[0]), size=SIZE))
    rollout = RolloutConfig(tasks=2, group_size=SIZE, dynamic_sampling=True, attempts=3)
    for iteration in range(3):
        found = sample_groups(engine, Ending(), tasks(2), rollout, seed=0, iteration=iteration)
        assert (len(found.groups), found.discarded) == (2, 4)  # two attempts without signal; the last is kept
    assert len(numbers) == len(set(numbers)) == 9


@pytest.mark.parametrize("resample", ["other", "same"])
def test_a_dropped_group_is_sampled_again_of_another_task_or_of_the_same(resample: Any) -> None:
    rounds: list[set[str]] = []

    class Noting(RolloutEngine):
        def play(self, agent: Any, tasks: Any, **options: Any) -> Any:
            rounds.append({task.task_id for task in tasks})
            return super().play(agent, tasks, **options)

    class Ending(WanderingAgent):
        def decide(self, view: View) -> Decision:
            return Decision("", stop="token_limit")

    engine = Noting(lambda: GroupEnv(lambda: SokobanEnv(level=LEVELS[0]), size=SIZE))
    rollout = RolloutConfig(tasks=1, group_size=SIZE, dynamic_sampling=True, resample=resample, attempts=10)
    sample_groups(engine, Ending(), tasks(4), rollout, seed=0, iteration=0)
    assert len(rounds) == 10  # every group is dead: all attempts are made
    assert (len(set().union(*rounds)) == 1) == (resample == "same")


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
