"""Build a credit set from episodes of many tasks; the file does not depend on the number of processes.

Every task is a job whose records depend on the settings alone. The environments alternate, and their results are used in the order
of their jobs, until every policy has its number of turns. Every finished job is appended to FILE.partial as one line, from which
an interrupted build is resumed.

The values of an action are exact where the states fit a table, and otherwise come from forked continuations.
Q^π(s, a) is the probability of success if ``NoisyExpert(noise)`` acts after action a, with the turns that are then left; V^π(s)
is that of acting from s on; A^π = Q^π − V^π.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from creditflow.envs.core import AgentEnv
from creditflow.envs.errors import ConfigError, DataError, OracleLimitError
from creditflow.envs.files.appended import read_appended
from creditflow.envs.files.atomic import atomic_writer
from creditflow.envs.reading.json_text import read_json_lines
from creditflow.envs.sokoban.levels.xsb import parse_level
from creditflow.envs.tasks import Task
from creditflow.train.bench.exact.mdp import FiniteMDP
from creditflow.train.bench.exact.policies import noisy_expert
from creditflow.train.bench.exact.sokoban_mdp import sokoban_mdp
from creditflow.train.bench.exact.values import evaluate
from creditflow.train.bench.jobs import JobPool, open_job_pool
from creditflow.train.credit_set.continuation import LazyStateGraph, Outcomes, State, unlimited_env
from creditflow.train.credit_set.reading import FORMAT, header_settings, read_header
from creditflow.train.credit_set.settings import PANEL, RECORD_VERSION, SETTINGS, BuildSettings
from creditflow.train.credit_set.turns import PlayedTurn, Player
from creditflow.train.progress import progress
from creditflow.train.rollout.play import episode_rng
from creditflow.train.run.identity import require_same
from creditflow.train.run.interrupted import partial_of
from creditflow.train.statistics import wilson_interval

__all__ = [
    "Estimate",
    "ExactValues",
    "ForkedValues",
    "build_credit_set",
    "choose_alternatives",
    "exact_values",
    "records_of_task",
    "states_of",
    "turn_record",
]

DIGITS: Final = 6  # decimal places of every number


def states_of(graph: LazyStateGraph, turns: Sequence[PlayedTurn]) -> list[State]:
    """The states before the turns of an episode.

    Raises:
        DataError: a state's admissible actions are not those of the episode.
    """
    states, state = list[State](), graph.start
    for turn in turns:
        if state.actions != turn.actions:
            raise DataError(
                f"turn {turn.index}: replaying the episode reached the state {state.key!r}, whose admissible actions differ from "
                "the recorded ones; the environment is not deterministic"
            )
        states.append(state)
        state = graph.step(state, turn.action)
    return states


def choose_alternatives(
    graph: LazyStateGraph, state: State, action: str, count: int, rng: np.random.Generator
) -> list[str]:
    """At most ``count`` other admissible actions than ``action``, sorted: an optimal one if there is any, the rest at random."""
    best = [text for text in graph.best(state) if text != action and text in state.actions]
    chosen = [best[int(rng.integers(len(best)))]] if best else []
    remaining = [text for text in state.actions if text != action and text not in chosen]
    chosen += [remaining[i] for i in rng.permutation(len(remaining))[: count - len(chosen)].tolist()]
    return sorted(chosen)


def turn_record(
    graph: LazyStateGraph, values: ExactValues | ForkedValues, state: State, turn: PlayedTurn, left: int, *,
    turn_id: str, alternatives: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """The fields of one turn that depend on its state; ``assets/credit_set/README.md`` defines them.

    Args:
        graph: the state graph of the task.
        values: the values of its states.
        state: the state before the turn.
        turn: the turn.
        left: turns left, this one included.
        turn_id: name of the turn; every estimate has its own generator, seeded by this name, the action and ``seed``.
        alternatives: maximum number of alternatives.
        seed: seed of the set.
    """

    def rng(what: str) -> np.random.Generator:
        return episode_rng(seed, 0, f"{turn_id}\n{what}", 0)

    def valued(action: str) -> tuple[Estimate, dict[str, Any]]:
        estimate = values.action(state, action, left, rng(f"action {action}"))
        after = graph.distance(graph.step(state, action))
        return estimate, {"action": action, **_fields("q", estimate), "distance_after": _finite(after)}

    v = values.state(state, left, rng("state"))
    q, fields = valued(turn.action)
    chosen = choose_alternatives(graph, state, turn.action, alternatives, rng("alternatives"))
    return {
        **fields,
        "response": turn.response,
        "valid": turn.valid,
        "admissible": len(state.actions),
        **_fields("v", v),
        "advantage": round(q.mean - v.mean, DIGITS),
        "advantage_error": round(math.hypot(q.standard_error, v.standard_error), DIGITS),
        "distance": _finite(graph.distance(state)),
        "alternatives": [valued(action)[1] for action in chosen],
    }


def _fields(name: str, estimate: Estimate) -> dict[str, Any]:
    return {
        name: round(estimate.mean, DIGITS),
        f"{name}_error": round(estimate.standard_error, DIGITS),
        f"{name}_interval": [round(estimate.low, DIGITS), round(estimate.high, DIGITS)],
        f"{name}_halves": [round(half, DIGITS) for half in estimate.halves],
        f"{name}_score": round(estimate.score, DIGITS),
    }


def _finite(distance: float) -> float | None:
    return distance if math.isfinite(distance) else None


BEGINNING: Final = f'{{"format":"{FORMAT}","version":{RECORD_VERSION},'
MAX_UNUSABLE_JOBS: Final = 200  # in a row, without a usable turn of a policy that still needs some
IN_FLIGHT: Final = 3  # jobs per worker and environment that are submitted but not yet written


def records_of_task(settings: BuildSettings, env: str, number: int) -> list[dict[str, Any]]:
    """Play one episode of a task with every policy; returns the records of some of their turns.

    Args:
        settings: settings of the set.
        env: name of the environment.
        number: number of the task in an order that depends on the seed; beyond the panel's size the tasks repeat, with
            different episodes.
    """
    player, of_env = _player(env, settings.policies, settings.seed), SETTINGS[env]
    task, replica = player.task(number)
    graph = LazyStateGraph(_graph_env(env), task)
    exact = exact_values(env, task, of_env.max_steps, of_env.noise) if settings.exact else None
    values = exact or ForkedValues(graph, of_env.noise, settings.forks)
    records = []
    for policy in player.policies:
        turns = player.play(task, replica, policy)
        states, name = states_of(graph, turns), f"{task.task_id}#{replica}/{policy}"
        usable = [turn for turn in turns if _is_usable(graph, states[turn.index], turn, of_env.max_steps)]
        order = episode_rng(settings.seed, 0, name, 0).permutation(len(usable)).tolist()
        for i in sorted(order[: settings.turns_per_episode]):
            turn, turn_id = usable[i], f"{name}/{usable[i].index}"
            turns_left = of_env.max_steps - turn.index
            record = turn_record(
                graph, values, states[turn.index], turn, turns_left,
                turn_id=turn_id, alternatives=settings.alternatives, seed=settings.seed,
            )  # fmt: skip
            facts = {
                "turn_id": turn_id, "env": env, "task_id": task.task_id, "split": player.splits[task.task_id],
                "policy": policy, "turn": turn.index, "turns_left": turns_left, "continuation": of_env.continuation,
                "kind": values.kind, "forks": values.forks, "prompt": turn.prompt,
            }  # fmt: skip
            records.append(facts | record)
    return records


def _is_usable(graph: LazyStateGraph, state: State, turn: PlayedTurn, max_steps: int) -> bool:
    """Whether there was another action and success was still within reach; otherwise no action can differ in value."""
    return bool(set(turn.actions) - {turn.action}) and graph.distance(state) <= max_steps - turn.index


@lru_cache(maxsize=8)
def _player(env: str, policies: tuple[str, ...], seed: int) -> Player:
    return Player(env, policies, seed)


@lru_cache(maxsize=8)
def _graph_env(env: str) -> AgentEnv[Any, Any, Any]:
    return unlimited_env(env, PANEL)


def build_credit_set(settings: BuildSettings, out: Path, *, workers: int = 1, resume: bool = False) -> None:
    """Write a credit set.

    Args:
        settings: settings of the set.
        out: file to write, .jsonl or .jsonl.gz.
        workers: number of processes; the file does not depend on it.
        resume: continue an interrupted build, or leave a finished one unchanged.

    Raises:
        ConfigError: there is an interrupted build, and not ``resume``.
        OtherRunError: ``resume``, but the interrupted build has other settings or was made by other code.
        DataError: a policy has no usable turns.
    """
    partial = partial_of(out)
    if partial.exists() and not resume:
        raise ConfigError(f"{partial} is left from an interrupted build: continue it with --resume, or use --force")
    if resume and out.exists() and not partial.exists():
        require_same(read_header(out), settings.identity(), str(out))
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    remaining = _Left(settings)
    with partial.open("a", encoding="ascii") as stream:
        if not _resume(partial, settings, remaining):
            stream.write(_line({"format": FORMAT, "version": RECORD_VERSION, "settings": settings.identity()}))
        with open_job_pool(workers) if workers > 1 else nullcontext() as pool:
            for _ in progress(_new_records(settings, remaining, pool, stream), "credit set", remaining.total):
                pass
            if pool is not None:
                pool.end()  # the jobs that were started ahead are not needed
    with atomic_writer(out) as finished:
        for number, (_, line) in enumerate(read_json_lines(partial)):
            for value in line["records"] if number else [line]:
                finished.write(_line(value))
    partial.unlink()


class _Left:
    """The work that is left.

    Attributes:
        turns: number of turns by environment and policy.
        jobs: number of the next job by environment.
    """

    def __init__(self, settings: BuildSettings) -> None:
        self.turns = {env: settings.quotas(env) for env in settings.envs}
        self.jobs = dict.fromkeys(settings.envs, 0)

    @property
    def total(self) -> int:
        return sum(sum(of_env.values()) for of_env in self.turns.values())

    def next_env(self) -> str | None:
        """The environment of the next job: they alternate until each has all its turns. None at the end."""
        unfinished = [env for env, of_env in self.turns.items() if any(of_env.values())]
        return min(unfinished, key=lambda env: self.jobs[env], default=None)

    def take(self, env: str, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Count a job as finished; returns those of its records that are still needed."""
        self.jobs[env] += 1
        quota, needed = self.turns[env], []
        for record in records:
            if quota[record["policy"]]:
                quota[record["policy"]] -= 1
                needed.append(record)
        return needed


def _resume(partial: Path, settings: BuildSettings, left: _Left) -> bool:
    """Count the finished jobs of an interrupted build; returns whether its first line was written."""
    lines = read_appended(partial, BEGINNING, "an interrupted build")
    _, first = next(lines, ("", None))
    if first is None:
        return False
    require_same(header_settings(first, str(partial)), settings.identity(), str(partial))
    for where, job in lines:
        try:
            left.take(job["env"], job["records"])
        except (KeyError, TypeError) as error:
            raise DataError(f"{where}: not a job of an interrupted build; start over with --force") from error
    return True


def _new_records(
    settings: BuildSettings, left: _Left, pool: JobPool | None, stream: IO[str]
) -> Iterator[dict[str, Any]]:
    """Run the jobs that are left, write each as one line, and yield the records."""
    with ExitStack() as stack:
        results = {
            env: stack.enter_context(closing(_results(settings, env, first, pool))) for env, first in left.jobs.items()
        }
        unusable = dict.fromkeys(settings.envs, 0)
        while (env := left.next_env()) is not None:
            records = left.take(env, next(results[env]))
            unusable[env] = 0 if records else unusable[env] + 1
            if unusable[env] == MAX_UNUSABLE_JOBS:
                missing = ", ".join(policy for policy, turns in left.turns[env].items() if turns)
                raise DataError(
                    f"{env}: {MAX_UNUSABLE_JOBS} tasks in a row had no usable turn of {missing} (another admissible action, and success "
                    "within reach); leave this policy or environment out, or ask for fewer turns"
                )
            stream.write(_line({"env": env, "records": records}))
            stream.flush()
            yield from records


def _results(
    settings: BuildSettings, env: str, first: int, pool: JobPool | None
) -> Generator[list[dict[str, Any]], None, None]:
    """Yield the results of an environment's jobs in order, endlessly, from job ``first`` on."""
    if pool is None:
        yield from (records_of_task(settings, env, number) for number in count(first))
        return
    futures = deque[Future[list[dict[str, Any]]]]()
    try:
        for number in count(first):
            futures.append(pool.submit(records_of_task, settings, env, number))
            if len(futures) == IN_FLIGHT * pool.workers:
                yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A probability of success.

    Attributes:
        mean: the value, or the fraction of continuations that succeeded.
        standard_error: standard error; 0.0 if the value is exact.
        low, high: 95 % interval (Wilson); both equal the value if it is exact.
        halves: fractions in the first and in the second half of the continuations.
        score: mean score.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    halves: tuple[float, float]
    score: float

    @staticmethod
    def exact(value: float) -> Estimate:
        """An exact value."""
        value = min(max(round(value, 9), 0.0), 1.0)
        return Estimate(value, 0.0, value, value, (value, value), value)

    @staticmethod
    def forked(outcomes: Outcomes) -> Estimate:
        """The estimate from K continuations, K even.

        The standard error is that of (successes + 2) / (K + 4), so that it is not 0 where all continuations agree.
        """
        success = outcomes.success
        total, half = len(success), len(success) // 2
        won = int(success.sum())
        smoothed = (won + 2) / (total + 4)
        low, high = wilson_interval(won, total)
        return Estimate(
            won / total, math.sqrt(smoothed * (1 - smoothed) / (total + 4)), low, high,
            (float(success[:half].mean()), float(success[half:].mean())), float(outcomes.score.mean()),
        )  # fmt: skip


class ForkedValues:
    """Estimates from continuations.

    Args:
        graph: the state graph of the task.
        noise: noise of the continuation policy.
        forks: K, number of continuations per estimate.
    """

    kind = "forked"

    def __init__(self, graph: LazyStateGraph, noise: float, forks: int) -> None:
        self._graph, self._noise, self.forks = graph, noise, forks

    def state(self, state: State, left: int, rng: np.random.Generator) -> Estimate:
        """V with ``left`` turns left."""
        return Estimate.forked(self._graph.continuations(state, left, self._noise, self.forks, rng))

    def action(self, state: State, action: str, left: int, rng: np.random.Generator) -> Estimate:
        """Q with ``left`` turns left, that of the action included."""
        return self.state(self._graph.step(state, action), left - 1, rng)


class ExactValues:
    """Values by dynamic programming; a rejected action leaves the state unchanged.

    Args:
        mdp: the task as tables; its horizon is the turn limit.
        noise: noise of the continuation policy.
    """

    kind = "exact"
    forks = 0

    def __init__(self, mdp: FiniteMDP, noise: float) -> None:
        self._mdp, self._values = mdp, evaluate(mdp, noisy_expert(mdp, noise))

    def state(self, state: State, left: int, rng: np.random.Generator) -> Estimate:  # noqa: ARG002 - ForkedValues draws from it
        """V with ``left`` turns left."""
        return Estimate.exact(float(self._values.value[left, self._mdp.index[state.key]]))

    def action(self, state: State, action: str, left: int, rng: np.random.Generator) -> Estimate:
        """Q with ``left`` turns left, that of the action included."""
        if action not in self._mdp.actions:
            return self.state(state, left - 1, rng)
        index = self._mdp.actions.index(action)
        return Estimate.exact(float(self._values.action_value[left, self._mdp.index[state.key], index]))


def exact_values(env: str, task: Task, max_steps: int, noise: float) -> ExactValues | None:
    """Exact values of a task; None if its states do not fit a table."""
    if env != "sokoban":
        return None
    try:
        mdp = sokoban_mdp(parse_level(str(task.content["xsb"])), max_steps)
    except OracleLimitError:  # the record says that its values are forked
        return None
    return ExactValues(mdp, noise)
