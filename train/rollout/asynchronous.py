"""The rollout engine without lock step: every episode goes on as soon as its own action is there.

One thread, the caller's, does everything that episodes share: prompts, decisions, branches, counts. Environments are
stepped in a bounded thread pool, and a backend that answers requests one by one has any number of them in flight. A
backend or agent that only takes batches gets whatever waits as its next batch.

Groups are those of ``RolloutEngine``, whatever takes how long: an episode has its own environment and generator, and with
branching, where the number of a branch depends on the order of turns, the episodes of a group move in step. Errors are
reported in the order of lock step. Only rounding inside a model depends on the batch, and with it on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, cast

from creditflow.agents.base import Agent, AskingAgent, Decision, Question, View, decisions_for
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.running import RolloutReport, RunningEpisode, RunningGroup
from creditflow.train.rollout.starting import EpisodeStarter

__all__ = ["AsynchronousEngine"]

COLLECT_SECONDS: Final = 0.005  # a batch waits this long for one more episode; changes which batch, never a result
Ask = Callable[[View], Question | Decision]


class AsynchronousEngine(RolloutEngine):
    """Plays groups as ``RolloutEngine`` does, without waiting for the slowest episode of a turn.

    Args:
        *arguments, **options: those of ``RolloutEngine``.
        threads: number of environments that are stepped at the same time.

    Raises:
        ConfigError: no thread.
    """

    def __init__(self, *arguments: Any, threads: int = 8, **options: Any) -> None:
        if threads < 1:
            raise ConfigError(f"environments need at least one thread, got {short_repr(threads)}")
        super().__init__(*arguments, **options)
        self.threads = threads

    def _play_out(
        self,
        agent: Agent,
        groups: Sequence[RunningGroup],
        starter: EpisodeStarter,
        on_turn: Callable[[int, int], None] | None,
    ) -> None:
        """Play started groups to their end. All threads have ended when this returns or raises."""
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="creditflow-env")
        try:
            with _questions(agent) as ask:
                _Play(self, agent, ask, groups, starter, on_turn, pool).run()
        finally:
            pool.shutdown(cancel_futures=True)


def _questions(agent: Agent) -> AbstractContextManager[Ask | None]:
    """The agent's way of answering single views; None if it only takes batches."""
    return agent.questions() if isinstance(agent, AskingAgent) else nullcontext(None)


@dataclass(slots=True, eq=False)
class _Unit:
    """Episodes that move in step: one, or with branching all of a group.

    Attributes:
        number, group: the group.
        episode: the only episode; None for all of the group.
        round: number of turns that the unit has finished.
        turns: episodes of the present turn, with their numbers in the group and, once there is one, their decisions.
        missing: number of decisions, then of steps, that the turn still waits for.
    """

    number: int
    group: RunningGroup
    episode: int | None
    round: int = 0
    turns: list[_Turn] = field(default_factory=list)
    missing: int = 0

    def running(self) -> list[_Turn]:
        """Turns of the episodes that are running."""
        episodes = enumerate(self.group.episodes)
        return [_Turn(i, episode) for i, episode in episodes if episode.running and self.episode in (None, i)]


@dataclass(slots=True, eq=False)
class _Turn:
    number: int
    episode: RunningEpisode
    decision: Decision | None = None


class _Play:
    """One call: units take turns independently. All methods run in the caller's thread; other threads only put events."""

    def __init__(
        self,
        engine: AsynchronousEngine,
        agent: Agent,
        ask: Ask | None,
        groups: Sequence[RunningGroup],
        starter: EpisodeStarter,
        on_turn: Callable[[int, int], None] | None,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._engine, self._agent, self._ask, self._pool, self._on_turn = engine, agent, ask, pool, on_turn
        self._groups, self._report, self._scratch = groups, starter.report, RolloutReport()
        self._starter = replace(starter, report=self._scratch)
        self._errors: list[tuple[tuple[int, ...], str]] = []  # with their places in lock step
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting: list[tuple[_Unit, _Turn]] = []  # for the next batch
        self._stepping = 0
        branching = bool(engine.branching.max_trajectories)
        self._units = [
            _Unit(number, group, episode)
            for number, group in enumerate(groups)
            for episode in ([None] if branching else range(len(group.episodes)))
        ]
        self._open = len(self._units)
        self._running = 0  # episodes

    def run(self) -> None:
        """Play all units to their end."""
        for unit in self._units:
            self._begin_turn(unit)
        while self._open:
            event = self._next_event()
            if event is not None:
                event()
            else:
                self._decide_batch()
        self._report.prompt_tokens += self._scratch.prompt_tokens
        self._report.completion_tokens += self._scratch.completion_tokens
        self._report.errors += [text for _, text in sorted(self._errors)]

    def _next_event(self) -> Callable[[], None] | None:
        """The next event; None if nothing more is about to join the waiting views."""
        if not self._waiting:
            return self._events.get()
        try:
            return self._events.get(timeout=COLLECT_SECONDS) if self._stepping else self._events.get_nowait()
        except Empty:
            return None

    def _begin_turn(self, unit: _Unit) -> None:
        if unit.episode is None:
            self._engine.fill(unit.group, self._starter)
            self._note_errors(unit.round, 0, unit.number)
        before, unit.turns = unit.turns, unit.running()
        unit.missing = len(unit.turns)
        self._running += len(unit.turns) - len(before)
        if not unit.turns:
            self._open -= 1
        for turn in unit.turns:
            if self._ask is None:
                self._waiting.append((unit, turn))
                continue
            asked = self._ask(turn.episode.view)
            if isinstance(asked, Decision):
                self._decided(unit, turn, asked)
            else:
                asked.answer.add_done_callback(self._put(self._answered, unit, turn, asked))

    def _put(self, event: Callable[..., None], *arguments: Any) -> Callable[[Any], None]:
        """A callback, for any thread, that leaves an event to the caller's thread."""
        return lambda _future: self._events.put(partial(event, *arguments))

    def _decide_batch(self) -> None:
        waiting, self._waiting = self._waiting, []
        decisions = decisions_for(self._agent, [turn.episode.view for _, turn in waiting])
        for (unit, turn), decision in zip(waiting, decisions, strict=True):
            self._decided(unit, turn, decision)

    def _answered(self, unit: _Unit, turn: _Turn, question: Question) -> None:
        self._decided(unit, turn, question.decide(question.answer.result()))

    def _decided(self, unit: _Unit, turn: _Turn, decision: Decision) -> None:
        turn.decision = decision
        unit.missing -= 1
        if not unit.missing:
            self._step(unit)

    def _step(self, unit: _Unit) -> None:
        """Once all decisions of a unit's turn are there: branches and counts in order, then steps in the pool."""
        steps: list[tuple[_Turn, Decision]] = []
        for turn in unit.turns:
            decision = cast(Decision, turn.decision)  # none is missing
            if self._engine.accept(unit.group, turn.episode, decision, self._agent, self._starter):
                steps.append((turn, decision))
            self._note_errors(unit.round, 1, unit.number, turn.number, 0)
        unit.missing = len(steps)
        if not steps:
            self._end_turn(unit)
        for turn, decision in steps:
            self._stepping += 1
            step = self._pool.submit(turn.episode.step, decision, self._engine.budget)
            step.add_done_callback(self._put(self._stepped, unit, turn, step))

    def _stepped(self, unit: _Unit, turn: _Turn, step: Future[Exception | None]) -> None:
        self._stepping -= 1
        error = step.result()
        if error is not None:
            self._scratch.add_error(error)
            self._note_errors(unit.round, 1, unit.number, turn.number, 1)
        unit.missing -= 1
        if not unit.missing:
            self._end_turn(unit)

    def _end_turn(self, unit: _Unit) -> None:
        unit.round += 1
        self._begin_turn(unit)
        if self._on_turn is not None:
            self._on_turn(self._running, sum(len(group.episodes) for group in self._groups))

    def _note_errors(self, *place: int) -> None:
        """Keep what the last operation reported, with its place in the order of lock step."""
        self._errors += [((*place, i), text) for i, text in enumerate(self._scratch.errors)]
        self._scratch.errors.clear()
