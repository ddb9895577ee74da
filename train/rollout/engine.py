"""The rollout engine: many tasks, G replicas each, all running episodes asked in one batch; perhaps branches of them.

Episodes draw from their own generators (seed, iteration, task, replica), so they do not depend on which others share
the batch, but for rounding inside the model. What goes wrong in one episode marks that episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from creditflow.agents.base import Agent, Decision, Forking, TurnTokens, View
from creditflow.agents.language_model.tokens import join_tokens
from creditflow.envs.errors import ConfigError, CreditflowError, EpisodeError
from creditflow.envs.tasks import Task
from creditflow.train.rollout.branching import BranchConfig, rise
from creditflow.train.rollout.play import episode_rng
from creditflow.wrappers.group_env import GroupEnv, payload
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.group import Group
from creditflow.wrappers.records.stop_reasons import StopReason
from creditflow.wrappers.records.trajectory import Trajectory, Turn

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
        prompt_tokens, answer_tokens: read and written; what a branch shares with its parent counts once.
    """

    errors: list[str] = field(default_factory=list)
    lost_groups: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0


@dataclass(slots=True)
class _Seat:
    """One episode.

    Attributes:
        prefix, ahead: of a branch: the turns before it, and their tokens.
        may_fork_at: no branch begins before this turn.
        unsure_at_first: entropy of the episode's first answer, once there is one.
    """

    env: GroupEnv
    member: int
    observation: Any
    info: dict[str, Any]
    rng: np.random.Generator
    tokens: list[TurnTokens] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    prefix: tuple[Turn, ...] = ()
    ahead: tuple[TurnTokens, ...] = ()
    may_fork_at: int = 1
    unsure_at_first: float | None = None

    @property
    def recorder(self) -> Recorder:
        return self.env.members[self.member]

    @property
    def running(self) -> bool:
        return not self.recorder.finished

    @property
    def turn(self) -> int:
        """The turn that comes next, counted from the root's first."""
        return len(self.prefix) + len(self.recorder.turns)

    def view(self) -> View:
        recorder = self.recorder
        return View(self.observation, self.info, (*self.prefix, *recorder.turns), recorder.base, self.rng)


@dataclass(slots=True)
class _Table:
    """One task: its episodes, branches last, how many tokens they wrote, and whether it failed to begin one more."""

    task: Task
    seats: list[_Seat]
    written: int = 0
    closed: bool = False


class Arena:
    """Plays groups; keeps its environments between calls.

    Args:
        make_group: makes the environments of one group (G recorded members).
        budget: limits per episode.
        branching: when episodes are forked; needs an agent whose answers carry entropies.
        make_branch: makes the environment of one branch (a group of one member).

    Raises:
        ConfigError: branches are wanted, but nothing makes their environments.
    """

    def __init__(
        self,
        make_group: Callable[[], GroupEnv],
        budget: Budget = Budget(),
        *,
        branching: BranchConfig | None = None,
        make_branch: Callable[[], GroupEnv] | None = None,
    ) -> None:
        self.branching = branching or BranchConfig()
        if self.branching.total and make_branch is None:
            raise ConfigError("branching needs make_branch, which makes a group of one member")
        self._make, self.budget, self._make_branch = make_group, budget, make_branch
        self._groups: list[GroupEnv] = []
        self._branches: list[GroupEnv] = []

    def play(
        self,
        agent: Agent,
        tasks: Sequence[Task],
        *,
        seed: int,
        iteration: int = 0,
        trial: int = 0,
        report: Report | None = None,
        on_turn: Callable[[int, int], None] | None = None,
    ) -> list[Group]:
        """One group per task, in order; groups that could not begin are left out and counted.

        Args:
            agent: who acts.
            tasks: what is played.
            seed, iteration: of the episodes' randomness.
            trial: number of the attempt, for agents that learn from earlier ones.
            report: filled in.
            on_turn: called after every round with (running episodes, all episodes).

        Raises:
            EpisodeError: not one group could begin.
        """
        report = Report() if report is None else report
        while len(self._groups) < len(tasks):
            self._groups.append(self._make())
        tables = [
            _Table(task, _sit(env, task, seed, iteration, trial, report))
            for env, task in zip(self._groups, tasks, strict=False)
        ]
        if tasks and not any(table.seats for table in tables):
            raise EpisodeError(f"no group could begin; the first error was: {report.errors[0]}")
        spare = iter(self._spare_branches())
        while running := self._running(tables, report, spare, seed, iteration, trial):
            decisions = agent.act([seat.view() for _, seat in running])
            for (table, seat), decision in zip(running, decisions, strict=True):
                if self.branching.total:
                    self._fork(table, seat, decision, agent, seed, iteration, trial, spare, report)
                self._do(table, seat, decision, report)
            if on_turn is not None:
                seats = [seat for table in tables for seat in table.seats]
                on_turn(sum(seat.running for seat in seats), len(seats))
        version = str(getattr(getattr(agent, "backend", None), "version", ""))
        return [
            Group(
                tuple(_finish(seat, version) for seat in table.seats),
                payload(table.task, [seat.recorder.base for seat in table.seats]),
            )
            for table in tables
            if table.seats
        ]

    def _running(
        self, tables: Sequence[_Table], report: Report, spare: Iterator[GroupEnv], seed: int, iteration: int, trial: int
    ) -> list[tuple[_Table, _Seat]]:
        """Episodes that go on; fresh ones of groups that are over and have room are among them."""
        for table in tables:
            over = table.seats and not table.closed and not any(seat.running for seat in table.seats)
            if self.branching.refill and over:
                identity = table.seats[0].recorder.identity
                for _ in range(self.branching.room(len(table.seats), table.written)):
                    env, replica = next(spare), len(table.seats)
                    with _beginning(report) as met:
                        start = env.start_extra_member(
                            task=dict(table.task.content),
                            group_id=identity["group_id"],
                            replica=replica,
                            seed=seed,
                            trial=trial,
                        )
                    if met:  # the group stays as large as it is
                        table.closed = True
                        break
                    rng = episode_rng(seed, iteration, table.task.task_id, replica, trial)
                    table.seats.append(_Seat(env, 0, *start, rng))
        return [(table, seat) for table in tables for seat in table.seats if seat.running]

    def _spare_branches(self) -> Iterator[GroupEnv]:
        """Environments for branches, made when they are first needed."""
        yield from self._branches
        while self._make_branch is not None:
            made = self._make_branch()
            self._branches.append(made)
            yield made

    def _fork(
        self,
        table: _Table,
        seat: _Seat,
        decision: Decision,
        agent: Agent,
        seed: int,
        iteration: int,
        trial: int,
        spare: Iterator[GroupEnv],
        report: Report,
    ) -> None:
        """Let other episodes go on from before this decision, if it was an unsure one."""
        config, tokens, turn = self.branching, decision.tokens, seat.turn
        if table.closed or decision.stop is not None or tokens is None or not len(tokens.entropies):
            return
        unsure = rise(tokens.entropies, config.first)
        if seat.unsure_at_first is None:
            seat.unsure_at_first = unsure
        if turn < seat.may_fork_at or not config.wants(unsure, seat.unsure_at_first):
            return
        recorder, task = seat.recorder, table.task
        for _ in range(min(config.per_turn, config.room(len(table.seats), table.written))):
            env, replica = next(spare), len(table.seats)
            with _beginning(report) as met:
                env.start_branch(
                    recorder.base.get_state(),
                    task=dict(task.content),
                    parent=recorder.identity["trajectory_id"],
                    fork_turn=turn,
                    group_id=recorder.identity["group_id"],
                    replica=replica,
                    seed=seed,
                    trial=trial,
                )
            if met:  # as above
                table.closed = True
                return
            child = _Seat(
                env,
                0,
                seat.observation,
                seat.info,
                episode_rng(seed, iteration, task.task_id, replica, trial),
                prefix=(*seat.prefix, *recorder.turns),
                ahead=(*seat.ahead, *seat.tokens),
                may_fork_at=turn + 1,  # what it decides here is drawn from what its parent's decision was drawn from
                unsure_at_first=seat.unsure_at_first,
            )
            if isinstance(agent, Forking):
                agent.fork(recorder.base, child.recorder.base, turn)
            table.seats.append(child)

    def _do(self, table: _Table, seat: _Seat, decision: Decision, report: Report) -> None:
        recorder = seat.recorder
        if decision.stop is not None:
            _stop(seat, decision.stop)
            return
        turn = len(recorder.turns)
        recorder.record_response(thought=decision.thought, response=decision.response)
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
            table.written += len(decision.tokens.answer)
        if seat.running:
            used = sum(len(one.prompt) + len(one.answer) for one in (*seat.ahead, *seat.tokens))
            if self.budget.tokens and used >= self.budget.tokens:
                _stop(seat, "token_limit")
            elif self.budget.turns and seat.turn >= self.budget.turns:
                _stop(seat, "env_limit")


def _sit(env: GroupEnv, task: Task, seed: int, iteration: int, trial: int, report: Report) -> list[_Seat]:
    """Begin a task in every member; [] if the environment cannot."""
    name = f"{task.task_id}#{iteration}" + (f".{trial}" if trial else "")
    with _beginning(report) as met:
        starts = env.reset(task=dict(task.content), seed=seed, group_id=name, trial=trial)
    if met:
        report.lost_groups += 1
        return []
    return [
        _Seat(env, i, obs, info, episode_rng(seed, iteration, task.task_id, i, trial))
        for i, (obs, info) in enumerate(starts)
    ]


@contextmanager
def _beginning(report: Report) -> Iterator[list[str]]:
    """Notes what an environment raises while an episode begins: there is none yet that could be marked.

    Yields:
        What was raised; empty while all is well.
    """
    met: list[str] = []
    try:
        yield met
    except CreditflowError:
        raise  # wrong tasks or settings: nothing that other tasks would be spared
    except Exception as error:  # noqa: BLE001 - whatever an environment raises ends this beginning and is reported
        met.append(f"{type(error).__name__}: {error}"[:300])
        report.errors += met


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
    tokens = None
    if seat.tokens and len(seat.tokens) == len(trajectory.turns):
        tokens = join_tokens(seat.tokens, version, ahead=seat.ahead)
    return replace(trajectory, tokens=tokens, **changes)
