"""Evaluation on a panel: success of greedy and sampled episodes, score and pass@k, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent
from creditflow.agents.language_model.react import ReflexionAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.grading.rewards import Reward
from creditflow.envs.wikisearch.protocol.dialects import Dialect
from creditflow.train.rollout.answers import mean_answer_scores
from creditflow.train.rollout.engine import Engine
from creditflow.train.rollout.own_metrics import Metric, measured
from creditflow.train.rollout.running import RolloutReport
from creditflow.train.settings.rollout import WAVE
from creditflow.train.statistics import Interval, normal_interval, rate_interval, t_quantile
from creditflow.wrappers.episode_rewards import transcript_of
from creditflow.wrappers.records.group import Group

__all__ = ["Evaluation", "clustered_interval", "evaluate", "pass_at_k", "task_type"]


def pass_at_k(successes: NDArray[np.int64], samples: int, k: int) -> NDArray[np.float64]:
    """Chance that at least one of k samples succeeds, unbiased, float64 (tasks,) (Chen et al. 2021): 1 − C(n−c, k) / C(n, k).

    Args:
        successes: int (tasks,), c.
        samples: n ≥ k.
        k: ≥ 1.

    Raises:
        ConfigError: k lies outside [1, n].
    """
    if not 1 <= k <= samples:
        raise ConfigError(f"pass@k needs 1 ≤ k ≤ n samples, got k={k}, n={samples}")
    return np.array([1.0 - math.comb(samples - int(c), k) / math.comb(samples, k) for c in successes])


def clustered_interval(per_task: NDArray[np.float64]) -> Interval:
    """95 % interval of the mean of numbers in [0, 1] over tasks, tasks being the independent units.

    The mean is as certain as the success rate of m independent trials, whose interval is that of Clopper and Pearson (Korn and
    Graubard, 1998): m = p (1 − p) / SE² · (z / t)², as the variance SE² of the mean is itself estimated. Each task in [0, 1] has at
    most the variance p (1 − p), so m is at least the number of tasks, which is also used where all tasks are equal.

    Args:
        per_task: float64 (tasks,), in [0, 1].

    >>> tuple(round(x, 3) for x in clustered_interval(np.zeros(10)))
    (0.0, 0.308)
    """
    mean, tasks = min(float(per_task.mean()), 1.0), len(per_task)
    if tasks == 1:
        return Interval(0.0, 1.0)
    square = float(per_task.var(ddof=1)) / tasks if np.ptp(per_task) else 0.0
    narrowed = (t_quantile(math.inf) / t_quantile(tasks - 1.0)) ** 2
    trials = max(mean * (1.0 - mean) / square * narrowed, tasks) if square > 0.0 else tasks
    return rate_interval(mean * trials, trials)


@dataclass(frozen=True)
class Evaluation:
    """Results of an evaluation.

    Attributes:
        task_ids: ids of the tasks, in order.
        greedy: bool (tasks,), success of the greedy episode.
        sampled: int (tasks,), number of successes among ``samples``.
        samples: number of sampled episodes per task.
        turns, invalid_fraction: mean turns per sampled (else greedy) episode; fraction of invalid turns.
        errors: number of episodes ended by an environment error.
        success_rates, scores: float64 (tasks,), mean success and score of a task's sampled (else greedy) episodes.
        task_rewards: float64 (tasks,) by name, mean transcript reward of a task's sampled (else greedy) episodes.
        task_answers: the same of exact match and F1 of the answers, "em" and "f1"; empty but for search.
        task_metrics: the same of metrics of the user.
        types: task types; "" where an environment has no types.
        solved_by_trial: fraction of episodes solved in the first trial, in the first two, and so on; () without trials.
    """

    task_ids: tuple[str, ...]
    greedy: NDArray[np.bool_]
    sampled: NDArray[np.int64]
    samples: int
    turns: float
    invalid_fraction: float
    errors: int
    success_rates: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    scores: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    task_rewards: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    task_answers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    task_metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    solved_by_trial: tuple[float, ...] = ()

    @property
    def rewards(self) -> dict[str, float]:
        """Mean transcript reward of the sampled (else greedy) episodes, by name."""
        return {name: float(values.mean()) for name, values in self.task_rewards.items()}

    def summary(self) -> dict[str, Any]:
        """Numbers for logs and tables, by name."""
        n = len(self.task_ids)
        low, high = rate_interval(int(self.greedy.sum()), n)
        out: dict[str, Any] = {
            "tasks": n,
            "greedy": float(self.greedy.mean()),
            "greedy_ci_low": low,
            "greedy_ci_high": high,
            "turns": self.turns,
            "invalid_fraction": self.invalid_fraction,
            "env_errors": self.errors,
            **{f"reward.{name}": value for name, value in self.rewards.items()},
        }
        bounded = {"score": self.scores, **self.task_answers} if len(self.scores) else {}
        for name, values in bounded.items():
            low, high = clustered_interval(values)
            out |= {name: float(values.mean()), f"{name}_ci_low": low, f"{name}_ci_high": high}
        for name, values in self.task_metrics.items():
            low, high = normal_interval(values)  # a number may have any range; infinite for one task
            out |= {f"metric.{name}": float(values.mean())}
            if len(values) > 1:
                out |= {f"metric.{name}_ci_low": low, f"metric.{name}_ci_high": high}
        out |= {f"solved_by_trial_{k}": rate for k, rate in enumerate(self.solved_by_trial, 1)}
        if self.samples:
            rates = self.sampled / self.samples
            low, high = clustered_interval(rates)
            out |= {"samples": self.samples, "sampled": float(rates.mean())}
            out |= {"sampled_ci_low": low, "sampled_ci_high": high}
            k = 1
            while k <= self.samples:
                out[f"pass@{k}"] = float(pass_at_k(self.sampled, self.samples, k).mean())
                k *= 2
        return out

    def line(self) -> str:
        """Format the results as one line."""
        s = self.summary()
        text = f"greedy {s['greedy']:.3f} [{s['greedy_ci_low']:.3f}, {s['greedy_ci_high']:.3f}] of {s['tasks']} tasks"
        if self.samples:
            text += (
                f", sampled {s['sampled']:.3f} [{s['sampled_ci_low']:.3f}, {s['sampled_ci_high']:.3f}]"
                f" (n={self.samples}), pass@{self.samples} {pass_at_k(self.sampled, self.samples, self.samples).mean():.3f}"
            )
        if len(self.scores):
            for name in ("score", *self.task_answers):
                text += f", {name} {s[name]:.3f} [{s[f'{name}_ci_low']:.3f}, {s[f'{name}_ci_high']:.3f}]"
        if self.solved_by_trial:
            text += ", solved by trial " + " ".join(f"{rate:.3f}" for rate in self.solved_by_trial)
        text += "".join(f", {name} {value:.3f}" for name, value in self.rewards.items())
        text += "".join(f", {name} {values.mean():.3f}" for name, values in self.task_metrics.items())
        return text + f", invalid {s['invalid_fraction']:.3f}"


def evaluate(
    engine: Engine, greedy: Agent, sampled: Agent | None, tasks: Sequence[Task], *,
    samples: int, seed: int, wave: int = WAVE,
    rewards: Mapping[str, Reward] | None = None, metrics: Sequence[Metric] = (), dialect: Dialect | None = None,
    trials: int = 1, keep: Callable[[Group], None] | None = None,
) -> Evaluation:  # fmt: skip
    """Evaluate: play every task once with ``greedy`` and ``samples`` times with ``sampled``.

    Args:
        engine: rollout engine with groups of one member.
        greedy, sampled: agents of one policy.
        tasks: tasks to play.
        samples: number of sampled episodes per task; 0 for none.
        seed: seed of the sampled episodes; equal seeds give equal random numbers to every policy.
        wave: number of concurrent episodes.
        rewards: transcript rewards to compute too, by name; needs questions, and an engine that keeps texts.
        metrics: metrics of the user to compute too.
        dialect: of a search environment its format of calls: exact match and F1 of the answers are computed too.
        trials: maximum number of attempts at a task, with reflections in between; needs ``ReflexionAgent`` and texts.
            An episode counts by its last trial.
        keep: called with every group that was played, all trials included.

    Raises:
        ConfigError: no tasks, a context that no prompt fits, a task that cannot be started, or several trials of an agent that does not reflect.
    """
    if not tasks:
        raise ConfigError("there are no tasks to evaluate on")
    agents = [agent for agent in (greedy, sampled) if agent is not None]
    players = [_Player(engine, agent, tasks, seed, wave, trials, keep) for agent in agents]
    greedy_groups = players[0].round(0)
    rounds = [players[1].round(1 + r) for r in range(samples)] if sampled is not None else []
    reported = rounds or [greedy_groups]
    episodes = [group for groups in reported for group in groups]
    played = RolloutReport()
    played.add_episodes(episodes)
    played.require_room()
    turns = [turn for group in episodes for turn in group.turns]

    def by_task(value: Callable[[Group], float]) -> NDArray[np.float64]:
        """Mean of each task's values over the reported rounds."""
        values = np.array([value(group) for group in episodes], np.float64)
        means: NDArray[np.float64] = values.reshape(len(reported), len(tasks)).mean(axis=0)
        return means

    def success(group: Group) -> bool:
        return group.trajectories[0].success

    def rewarded(reward: Reward) -> NDArray[np.float64]:
        return by_task(lambda group: reward(transcript_of(group, 0)))

    def own_metric(metric: Metric) -> NDArray[np.float64]:
        return by_task(lambda group: measured(metric, group.trajectories[:1])[0])

    return Evaluation(
        task_ids=tuple(task.task_id for task in tasks),
        greedy=np.array(list(map(success, greedy_groups)), np.bool_),
        sampled=np.array(
            [sum(map(success, played)) for played in zip(*rounds, strict=True)] or [0] * len(tasks), np.int64
        ),
        samples=len(rounds),
        turns=len(turns) / len(episodes),
        invalid_fraction=float(np.mean([not turn.valid for turn in turns])) if turns else 0.0,
        errors=sum(group.trajectories[0].stop_reason == "env_error" for group in episodes),
        task_rewards={name: rewarded(reward) for name, reward in (rewards or {}).items()},
        task_answers={} if dialect is None else mean_answer_scores(reported, dialect),
        task_metrics={metric.name: own_metric(metric) for metric in metrics},
        success_rates=by_task(success),
        scores=by_task(lambda group: group.trajectories[0].score),
        types=tuple(map(task_type, tasks)),
        solved_by_trial=_solved_by_trial((players[-1] if rounds else players[0]).trials_needed, trials),
    )


def _solved_by_trial(needed: Sequence[int], trials: int) -> tuple[float, ...]:
    """Fraction of episodes that succeeded by the k-th trial, of the trials that each needed (0: never); () for one trial."""
    if trials == 1:
        return ()
    counts = np.asarray(needed)
    return tuple(float(((counts > 0) & (counts <= k)).mean()) for k in range(1, trials + 1))


def task_type(task: Task) -> str:
    """The type of a task in its environment (ALFWorld's six, a question's form); "" if it has none."""
    field_of = {"alfworld": "goal", "wikisearch": "kind"}.get(task.task_id.partition(":")[0].rstrip("0123456789"), "")
    value = task.content.get(field_of, "")
    return str(value if isinstance(value, str) else value[0])


class _Player:
    """Plays rounds with one agent: every task once, with further trials of failed tasks if ``trials`` > 1.

    Attributes:
        trials_needed: number of trials until success, for every episode so far; 0 if no trial succeeded.
    """

    def __init__(
        self,
        engine: Engine,
        agent: Agent,
        tasks: Sequence[Task],
        seed: int,
        wave: int,
        trials: int,
        keep: Callable[[Group], None] | None,
    ) -> None:
        if trials < 1 or (trials > 1 and not isinstance(agent, ReflexionAgent)):
            raise ConfigError(f"several trials need an agent that reflects: reflexion:hf:PATH; got {trials} trials")
        self._engine, self._agent, self._tasks, self._seed, self._wave = engine, agent, tasks, seed, wave
        self._trials, self._keep = trials, keep
        self.trials_needed: list[int] = []

    def round(self, iteration: int) -> list[Group]:
        """Play every task; returns the group of its last trial."""
        agent, last_trials = self._agent, {}
        if isinstance(agent, ReflexionAgent):
            agent.reset()
        unsolved = list(self._tasks)
        solved: dict[str, int] = {}
        for trial in range(self._trials):
            played = _play_in_waves(self._engine, agent, unsolved, self._seed, iteration, trial, self._wave)
            for group in played:
                last_trials[group.task_id] = group
                if self._keep is not None:
                    self._keep(group)
                if group.trajectories[0].success:
                    solved[group.task_id] = trial + 1
            failed = [group.trajectories[0] for group in played if not group.trajectories[0].success]
            unsolved = [task for task in unsolved if task.task_id not in solved]
            if not unsolved or trial + 1 == self._trials:
                break
            if isinstance(agent, ReflexionAgent):
                agent.reflect(failed, seed=self._seed, iteration=iteration)
        self.trials_needed += [solved.get(task.task_id, 0) for task in self._tasks]
        return [last_trials[task.task_id] for task in self._tasks]


def _play_in_waves(
    engine: Engine, agent: Agent, tasks: Sequence[Task], seed: int, iteration: int, trial: int, wave: int
) -> list[Group]:
    groups: list[Group] = []
    for start in range(0, len(tasks), wave):
        groups += engine.play(agent, tasks[start : start + wave], seed=seed, iteration=iteration, trial=trial)
    if len(groups) != len(tasks):
        raise ConfigError("some tasks could not be started, so they cannot be evaluated")
    return groups
