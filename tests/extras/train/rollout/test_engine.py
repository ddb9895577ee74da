"""The rollout engine: budgets, errors and stop reasons mark episodes; equal seeds give equal episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import creditflow
from creditflow.agents.base import Decision, TurnTokens, View
from creditflow.agents.scripted import ExpertAgent, RandomAgent
from creditflow.envs.errors import EpisodeError
from creditflow.envs.sokoban.env import SokobanEnv
from creditflow.envs.tasks import Task
from creditflow.train.rollout.engine import Budget, RolloutEngine, RolloutReport
from creditflow.wrappers import credit
from creditflow.wrappers.group_env import GroupEnv

LEVEL = "#######\n#@ $ .#\n#     #\n#######"


def engine(size: int = 2, budget: Budget | None = None, make: Any = SokobanEnv) -> RolloutEngine:
    return RolloutEngine(lambda: GroupEnv(lambda: make(level=LEVEL, max_steps=6), size=size), budget)


def task() -> Task:
    return SokobanEnv(level=LEVEL).tasks.sample(np.random.default_rng(0))


class FixedAgent:
    """Walks into a wall; five prompt tokens and three completion tokens a turn."""

    name = "agent"

    def act(self, views: Sequence[View]) -> list[Decision]:
        tokens = TurnTokens(np.arange(5, dtype=np.int32), np.arange(3, dtype=np.int32), np.zeros(3, np.float32))
        return [Decision("left", response="left", tokens=tokens) for _ in views]


def test_the_environments_limit_ends_an_episode() -> None:
    [group] = engine().play(FixedAgent(), [task()], seed=0)
    assert {(t.stop_reason, len(t.turns)) for t in group.trajectories} == {("env_limit", 6)}


@pytest.mark.parametrize(
    ("budget", "reason", "turns"),
    [(Budget(turns=4), "env_limit", 4), (Budget(tokens=17), "token_limit", 3), (Budget(tokens=16), "token_limit", 2)],
)
def test_budgets_end_an_episode(budget: Budget, reason: str, turns: int) -> None:
    [group] = engine(budget=budget).play(FixedAgent(), [task()], seed=0)
    assert {(t.stop_reason, len(t.turns)) for t in group.trajectories} == {(reason, turns)}


def test_tokens_are_recorded_turn_by_turn() -> None:
    report = RolloutReport()
    [group] = engine(budget=Budget(turns=2)).play(FixedAgent(), [task()], seed=0, report=report)
    tokens = group.trajectories[0].tokens
    assert tokens is not None
    assert tokens.ids.tolist() == [0, 1, 2, 3, 4, 0, 1, 2] * 2
    assert tokens.turn_offsets.tolist() == [0, 8, 16]
    assert (report.prompt_tokens, report.completion_tokens) == (20, 12)


def test_an_agent_may_stop_an_episode_before_its_first_turn() -> None:
    class Full(FixedAgent):
        def act(self, views: Sequence[View]) -> list[Decision]:
            return [Decision("", stop="token_limit") for _ in views]

    [group] = engine().play(Full(), [task()], seed=0)
    assert {(t.stop_reason, len(t.turns), t.tokens) for t in group.trajectories} == {("token_limit", 0, None)}


def test_a_completion_that_cannot_be_parsed_keeps_its_reason() -> None:
    class Unparsable(FixedAgent):
        def act(self, views: Sequence[View]) -> list[Decision]:
            return [Decision("right", invalid_reason="no tags") for _ in views]

    [group] = engine().play(Unparsable(), [task()], seed=0)
    assert {(turn.parsed, turn.valid, turn.invalid_reason) for turn in group.turns} == {(False, False, "no tags")}


class Fragile(SokobanEnv):
    """Raises in its third step if the action is up."""

    def _apply(self, action: int) -> Any:
        if self.elapsed_steps == 3 and action == 0:
            raise OSError("the disk is on fire")
        return super()._apply(action)


class WithoutReward(SokobanEnv):
    """Its third reward is no number if the action is up."""

    def _apply(self, action: int) -> Any:
        reward, *rest = super()._apply(action)
        return (math.nan if self.elapsed_steps == 3 and action == 0 else reward, *rest)


class TooGood(SokobanEnv):
    """Its score is out of range after the third step if that was up."""

    up = False

    def _apply(self, action: int) -> Any:
        self.up = self.elapsed_steps == 3 and action == 0
        return super()._apply(action)

    def _progress(self) -> tuple[bool, float]:
        success, score = super()._progress()
        return success, 2.0 if self.up else score


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Fragile, "OSError: the disk is on fire"),
        (WithoutReward, "DataError: sokoban: a reward must be finite and a score lie in [0, 1], got reward nan"),
        (TooGood, "DataError: sokoban: a reward must be finite and a score lie in [0, 1], got reward"),
    ],
)
def test_an_environment_error_marks_its_episode_and_not_the_run(make: type[SokobanEnv], message: str) -> None:
    class Upward(FixedAgent):
        def act(self, views: Sequence[View]) -> list[Decision]:
            return [Decision("up" if i == 0 else "left") for i, _ in enumerate(views)]

    report = RolloutReport()
    [group] = engine(make=make).play(Upward(), [task()], seed=0, report=report)
    first, second = group.trajectories
    assert (first.stop_reason, len(first.turns)) == ("env_error", 2)
    assert (second.stop_reason, len(second.turns)) == ("env_limit", 6)
    assert report.errors[0].startswith(message)
    assert len(report.errors) == 1


class Closed(SokobanEnv):
    """Cannot start."""

    def _start(self, task: Task) -> None:
        raise OSError("no task files")


def test_a_group_that_cannot_start_is_counted_and_left_out() -> None:
    kinds = iter([SokobanEnv, Closed])

    def make_group() -> GroupEnv:
        kind = next(kinds)
        return GroupEnv(lambda: kind(level=LEVEL, max_steps=6), size=2)

    report = RolloutReport()
    groups = RolloutEngine(make_group).play(FixedAgent(), [task(), task()], seed=0, report=report)
    assert [len(group) for group in groups] == [2]
    assert (report.groups_failed_to_start, report.errors) == (1, ["OSError: no task files"])


def test_it_is_an_error_if_no_group_can_start() -> None:
    with pytest.raises(EpisodeError, match="no task files"):
        engine(make=Closed).play(FixedAgent(), [task()], seed=0)


def test_equal_seeds_give_equal_episodes_and_replicas_differ() -> None:
    def actions(seed: int) -> list[list[str]]:
        [group] = engine(size=3).play(RandomAgent(), [task()], seed=seed)
        return [[turn.action for turn in t.turns] for t in group.trajectories]

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
    assert len({tuple(one) for one in actions(1)}) > 1


def test_groups_of_the_engine_contain_the_retrieved_documents() -> None:
    world = {"articles": 400, "questions": 3, "seed": 3}
    source = creditflow.make("wikisearch", world=world).unwrapped.tasks  # type: ignore[attr-defined]  # an AgentEnv
    [group] = RolloutEngine(lambda: GroupEnv("wikisearch", size=2, world=world)).play(
        ExpertAgent(), [source.get(source.task_ids()[0])], seed=0
    )
    assert not credit.make("stepsearch").undefined_on(group)
