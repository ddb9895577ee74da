"""The rollout engine: many tasks, G replicas each, all running episodes asked in one batch.

Episodes draw from their own generators (seed, iteration, task, replica), so they do not depend on which others share
the batch, but for rounding inside the model. What goes wrong in one episode marks that episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from creditflow.agents.base import Agent, Decision, TurnTokens, View
from creditflow.agents.tokens import join_tokens
from creditflow.envs.errors import ConfigError, CreditflowError, EpisodeError
from creditflow.envs.tasks import Task
from creditflow.train.rollout import episode_rng
from creditflow.wrappers.group_env import GroupEnv
from creditflow.wrappers.groups import Group
from creditflow.wrappers.records import Trajectory
from creditflow.wrappers.stop_reasons import StopReason

__all__ = ["Arena", "Budget", "Report"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one episode that the environment does not know.

    Attributes:
        turns: at most this many; 0 for no other limit than the environment's.
        tokens: no further turn once this many tokens were read and written; 0 for no limit.
    """

    turns: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Report:
    """What went on besides the episodes themselves.

    Attributes:
        errors: messages of environment errors, one per episode or group that met one.
        lost_groups: groups that could not even begin.
        prompt_tokens, answer_tokens: read and written.
    """

    errors: list[str] = field(default_factory=list)
    lost_groups: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0


@dataclass(slots=True)
class _Seat:
    env: GroupEnv
    member: int
    observation: Any
    info: dict[str, Any]
    rng: np.random.Generator
    tokens: list[TurnTokens] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return not self.env.members[self.member].finished

    def view(self) -> View:
        recorder = self.env.members[self.member]
        return View(self.observation, self.info, recorder.turns, recorder.base, self.rng)


class Arena:
    """Plays groups; keeps its environments between calls.

    Args:
        make_group: makes the environments of one group (G recorded members).
        budget: limits per episode.
    """

    def __init__(self, make_group: Callable[[], GroupEnv], budget: Budget = Budget()) -> None:
        self._make, self.budget = make_group, budget
        self._groups: list[GroupEnv] = []

    def play(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        *,
        seed: int,
        iteration: int = 0,
        report: Report | None = None,
        on_turn: Callable[[int, int], None] | None = None,
    ) -> list[Group]:
        """One group per task, in order; groups that could not begin are left out and counted.

        Args:
            agent: who acts.
            tasks: what is played.
            seed, iteration: of the episodes' randomness.
            report: filled in.
            on_turn: called after every round with (running episodes, all episodes).

        Raises:
            EpisodeError: not one group could begin.
        """
        report = Report() if report is None else report
        while len(self._groups) < len(tasks):
            self._groups.append(self._make())
        seats: list[list[_Seat]] = []
        for env, task in zip(self._groups, tasks, strict=False):
            seats.append(_sit(env, task, seed, iteration, report))
        if tasks and not any(seats):
            raise EpisodeError(f"no group could begin; the first error was: {report.errors[0]}")
        everyone = [seat for group in seats for seat in group]
        while running := [seat for seat in everyone if seat.running]:
            decisions = agent.act([seat.view() for seat in running])
            for seat, decision in zip(running, decisions, strict=True):
                self._do(seat, decision, report)
            if on_turn is not None:
                on_turn(sum(seat.running for seat in everyone), len(everyone))
        version = str(getattr(getattr(agent, "backend", None), "version", ""))
        return [
            Group(tuple(_finish(seat, version) for seat in group), dict(task.content))
            for group, task in zip(seats, tasks, strict=True)
            if group
        ]

    def _do(self, seat: _Seat, decision: Decision, report: Report) -> None:
        recorder = seat.env.members[seat.member]
        if decision.stop is not None:
            _stop(seat, decision.stop)
            return
        turn = len(recorder.turns)
        recorder.note(thought=decision.thought, response=decision.response)
        try:
            step = seat.env.step({seat.member: decision.action})[seat.member]
        except (EpisodeError, ConfigError):
            raise  # a fault of ours, not of the environment
        except Exception as error:  # noqa: BLE001 - whatever an environment raises marks its episode and is reported
            report.errors.append(f"{type(error).__name__}: {error}"[:300])
            _stop(seat, "env_error")
            return
        seat.observation, seat.info = step.observation, step.info
        if decision.invalid_reason:
            seat.faults[turn] = decision.invalid_reason
        if decision.tokens is not None:
            seat.tokens.append(decision.tokens)
            report.prompt_tokens += len(decision.tokens.prompt)
            report.answer_tokens += len(decision.tokens.answer)
        if seat.running:
            used = sum(len(one.prompt) + len(one.answer) for one in seat.tokens) if self.budget.tokens else 0
            if self.budget.tokens and used >= self.budget.tokens:
                _stop(seat, "token_limit")
            elif self.budget.turns and turn + 1 >= self.budget.turns:
                _stop(seat, "env_limit")


def _sit(env: GroupEnv, task: Task, seed: int, iteration: int, report: Report) -> list[_Seat]:
    """Begin a task in every member; [] if the environment cannot."""
    try:
        starts = env.reset(task=dict(task.content), seed=seed, group_id=f"{task.task_id}#{iteration}")
    except CreditflowError:
        raise  # wrong tasks or settings: nothing that other tasks would be spared
    except Exception as error:  # noqa: BLE001 - as above; there is no episode yet that could be marked
        report.errors.append(f"{type(error).__name__}: {error}"[:300])
        report.lost_groups += 1
        return []
    return [
        _Seat(env, i, obs, info, episode_rng(seed, iteration, task.task_id, i)) for i, (obs, info) in enumerate(starts)
    ]


def _stop(seat: _Seat, reason: StopReason) -> None:
    seat.env.stop(seat.member, reason)


def _finish(seat: _Seat, version: str) -> Trajectory:
    """The trajectory, with its tokens and with what the reader of answers objected to."""
    trajectory = seat.env.members[seat.member].trajectory
    changes: Mapping[str, Any] = {}
    if seat.faults:
        turns = list(trajectory.turns)
        for t, reason in seat.faults.items():
            turns[t] = replace(turns[t], parsed=False, invalid_reason=reason)
        changes = {"turns": tuple(turns)}
    tokens = join_tokens(seat.tokens, version) if len(seat.tokens) == len(trajectory.turns) and seat.tokens else None
    return replace(trajectory, tokens=tokens, **changes)
