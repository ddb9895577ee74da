"""The rollout engine without lock step: every episode goes on as soon as its own action is there.

One thread, the caller's, does everything that episodes share: prompts, decisions, counts. Environments are stepped in a
bounded thread pool, and a backend that answers requests one by one has any number of them in flight. A backend or agent
that only takes batches gets whatever waits as its next batch.

Groups are those of ``RolloutEngine``, whatever takes how long: an episode has its own environment and generator. Errors are
reported in the order of lock step. Only rounding inside a model depends on the batch, and with it on timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Any, Final

from creditflow.agents.base import Agent, AskingAgent, Decision, Question, View, decisions_for
from creditflow.envs.errors import ConfigError, short_repr
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.rollout.running import RunningEpisode, RunningGroup
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
        ConfigError: no thread; or branches, whose numbers depend on the order of turns.
    """

    def __init__(self, *arguments: Any, threads: int = 8, **options: Any) -> None:
        if threads < 1:
            raise ConfigError(f"environments need at least one thread, got {short_repr(threads)}")
        super().__init__(*arguments, **options)
        if self.branching.max_trajectories:
            raise ConfigError("episodes that branch move in lock step: use rollout.asynchronous=false")
        self.threads = threads

    def _play_out(
        self,
        agent: Agent,
        groups: Sequence[RunningGroup],
        starter: EpisodeStarter,
    ) -> None:
        """Play started groups to their end. All threads have ended when this returns or raises."""
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="creditflow-env")
        try:
            with _questions(agent) as ask:
                _Play(self, agent, ask, groups, starter, pool).run()
        finally:
            pool.shutdown(cancel_futures=True)


def _questions(agent: Agent) -> AbstractContextManager[Ask | None]:
    """The agent's way of answering single views; None if it only takes batches."""
    return agent.questions() if isinstance(agent, AskingAgent) else nullcontext(None)


@dataclass(slots=True, eq=False)
class _Playing:
    """An episode.

    Attributes:
        group, episode: the episode and its group.
        place: numbers of the group and of the episode in it.
        round: number of turns that the episode has finished.
    """

    group: RunningGroup
    episode: RunningEpisode
    place: tuple[int, int]
    round: int = 0


class _Play:
    """One call. All methods run in the caller's thread; other threads only put events."""

    def __init__(
        self,
        engine: AsynchronousEngine,
        agent: Agent,
        ask: Ask | None,
        groups: Sequence[RunningGroup],
        starter: EpisodeStarter,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._engine, self._agent, self._ask, self._starter, self._pool = engine, agent, ask, starter, pool
        self._errors: list[tuple[tuple[int, ...], Exception]] = []  # with their places in lock step
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting: list[_Playing] = []  # for the next batch
        self._stepping = 0
        self._episodes = [
            _Playing(group, episode, (number, index))
            for number, group in enumerate(groups)
            for index, episode in enumerate(group.episodes)
        ]
        self._open = len(self._episodes)

    def run(self) -> None:
        """Play all episodes to their end."""
        for playing in self._episodes:
            self._begin_turn(playing)
        while self._open:
            event = self._next_event()
            if event is not None:
                event()
            else:
                self._decide_batch()
        for _, error in sorted(self._errors, key=itemgetter(0)):
            self._starter.report.add_error(error)

    def _next_event(self) -> Callable[[], None] | None:
        """The next event; None if nothing more is about to join the waiting views."""
        if not self._waiting:
            return self._events.get()
        try:
            return self._events.get(timeout=COLLECT_SECONDS) if self._stepping else self._events.get_nowait()
        except Empty:
            return None

    def _begin_turn(self, playing: _Playing) -> None:
        if not playing.episode.running:
            self._open -= 1
            return
        if self._ask is None:
            self._waiting.append(playing)
            return
        asked = self._ask(playing.episode.view)
        if isinstance(asked, Decision):
            self._decided(playing, asked)
        else:
            asked.answer.add_done_callback(self._put(self._answered, playing, asked))

    def _put(self, event: Callable[..., None], *arguments: Any) -> Callable[[Any], None]:
        """A callback, for any thread, that leaves an event to the caller's thread."""
        return lambda _future: self._events.put(partial(event, *arguments))

    def _decide_batch(self) -> None:
        waiting, self._waiting = self._waiting, []
        decisions = decisions_for(self._agent, [playing.episode.view for playing in waiting])
        for playing, decision in zip(waiting, decisions, strict=True):
            self._decided(playing, decision)

    def _answered(self, playing: _Playing, question: Question) -> None:
        self._decided(playing, question.decide(question.answer.result()))

    def _decided(self, playing: _Playing, decision: Decision) -> None:
        """Count a decision, and step the environment in the pool unless the decision ends the episode."""
        if not self._engine.accept(playing.group, playing.episode, decision, self._agent, self._starter):
            self._end_turn(playing)
            return
        self._stepping += 1
        step = self._pool.submit(playing.episode.step, decision, self._engine.budget)
        step.add_done_callback(self._put(self._stepped, playing, step))

    def _stepped(self, playing: _Playing, step: Future[Exception | None]) -> None:
        self._stepping -= 1
        error = step.result()
        if error is not None:
            self._errors.append(((playing.round, *playing.place), error))
        self._end_turn(playing)

    def _end_turn(self, playing: _Playing) -> None:
        playing.round += 1
        self._begin_turn(playing)
