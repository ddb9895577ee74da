"""Evaluation on a panel: greedy success, sampled success, score and pass@k, with intervals; success by task type."""

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
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.statistics import Interval, normal_interval, wilson_interval
from creditflow.wrappers.episode_rewards import transcript_of
from creditflow.wrappers.records.group import Group

__all__ = ["Evaluation", "clustered_interval", "evaluate", "pass_at_k", "task_type"]


def pass_at_k(successes: NDArray[np.int64], samples: int, k: int) -> NDArray[np.float64]:
    """Chance that at least one of k samples succeeds, unbiased, per task (Chen et al. 2021): 1 − C(n−c, k) / C(n, k).

    Args:
        successes: int (tasks,), c.
        samples: n ≥ k.
        k: ≥ 1.
    """
    if not 1 <= k <= samples:
        raise ConfigError(f"pass@k needs 1 ≤ k ≤ n samples, got k={k}, n={samples}")
    return np.array([1.0 - math.comb(samples - int(c), k) / math.comb(samples, k) for c in successes])


def clustered_interval(per_task: NDArray[np.float64]) -> Interval:
    """95 % interval of the mean of numbers in [0, 1] over tasks, tasks being the independent units.

    A normal approximation; where all tasks are equal (all failed, all solved) it would have no width, and Wilson's
    interval of as many trials stands in.

    >>> tuple(round(x, 3) for x in clustered_interval(np.zeros(10)))
    (0.0, 0.278)
    """
    mean, tasks = float(per_task.mean()), len(per_task)
    if tasks > 1 and not np.ptp(per_task):
        return wilson_interval(mean * tasks, tasks)
    low, high = normal_interval(per_task)
    return Interval(max(0.0, low), min(1.0, high))


@dataclass(frozen=True)
class Evaluation:
    """What was measured.

    Attributes:
        task_ids: in order.
        greedy: bool (tasks,).
        sampled: int (tasks,), successes among ``samples``.
        samples: episodes per task.
        turns, invalid_fraction: mean turns per sampled (else greedy) episode; share of invalid turns.
        errors: episodes ended by an environment error.
        rewards: mean reward of the sampled (else greedy) episodes' transcripts, by name.
        shares, scores: float64 (tasks,), mean success and score of a task's sampled (else greedy) episodes.
        types: of the tasks; "" where an environment has no types.
        solved_by_trial: share of the episodes solved at the first trial, by the second, and so on; () without trials.
    """

    task_ids: tuple[str, ...]
    greedy: NDArray[np.bool_]
    sampled: NDArray[np.int64]
    samples: int
    turns: float
    invalid_fraction: float
    errors: int
    rewards: Mapping[str, float] = field(default_factory=dict)
    shares: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    scores: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    types: tuple[str, ...] = ()
    solved_by_trial: tuple[float, ...] = ()

    def by_type(self) -> dict[str, dict[str, float]]:
        """Success of the sampled (else greedy) episodes by task type, with its interval over tasks."""
        out: dict[str, dict[str, float]] = {}
        for kind in sorted(set(self.types) - {""}):
            share = self.shares[[i for i, one in enumerate(self.types) if one == kind]]
            low, high = clustered_interval(share)
            out[kind] = {"tasks": len(share), "success": float(share.mean()), "low": low, "high": high}
        return out

    def summary(self) -> dict[str, Any]:
        """Plain numbers for logs and tables."""
        n = len(self.task_ids)
        low, high = wilson_interval(int(self.greedy.sum()), n)
        out: dict[str, Any] = {
            "tasks": n,
            "greedy": float(self.greedy.mean()),
            "greedy_low": low,
            "greedy_high": high,
            "turns": self.turns,
            "invalid_fraction": self.invalid_fraction,
            "env_errors": self.errors,
            **{f"reward.{name}": value for name, value in self.rewards.items()},
        }
        if len(self.scores):
            low, high = clustered_interval(self.scores)
            out |= {"score": float(self.scores.mean()), "score_low": low, "score_high": high}
        out |= {f"solved_by_trial_{k}": share for k, share in enumerate(self.solved_by_trial, 1)}
        if self.samples:
            share = self.sampled / self.samples
            low, high = clustered_interval(share)
            out |= {"samples": self.samples, "sampled": float(share.mean()), "sampled_low": low, "sampled_high": high}
            k = 1
            while k <= self.samples:
                out[f"pass@{k}"] = float(pass_at_k(self.sampled, self.samples, k).mean())
                k *= 2
        return out

    def line(self) -> str:
        """One plain line."""
        s = self.summary()
        text = f"greedy {s['greedy']:.3f} [{s['greedy_low']:.3f}, {s['greedy_high']:.3f}] of {s['tasks']} tasks"
        if self.samples:
            text += (
                f", sampled {s['sampled']:.3f} [{s['sampled_low']:.3f}, {s['sampled_high']:.3f}]"
                f" (n={self.samples}), pass@{self.samples} {pass_at_k(self.sampled, self.samples, self.samples).mean():.3f}"
            )
        if len(self.scores):
            text += f", score {s['score']:.3f} [{s['score_low']:.3f}, {s['score_high']:.3f}]"
        if self.solved_by_trial:
            text += ", solved by trial " + " ".join(f"{share:.3f}" for share in self.solved_by_trial)
        text += "".join(f", {name} {value:.3f}" for name, value in self.rewards.items())
        return text + f", invalid {s['invalid_fraction']:.3f}"


def evaluate(
    engine: RolloutEngine,
    greedy: Agent,
    sampled: Agent | None,
    tasks: Sequence[Task],
    *,
    samples: int,
    seed: int,
    wave: int = 256,
    rewards: Mapping[str, Reward] | None = None,
    trials: int = 1,
    keep: Callable[[Group], None] | None = None,
) -> Evaluation:
    """Play every task once with ``greedy`` and ``samples`` times with ``sampled``.

    Args:
        engine: with groups of one member.
        greedy, sampled: agents of one policy.
        tasks: what is played.
        samples: 0 leaves sampling out.
        seed: of the sampled episodes; equal seeds give equal draws to every policy.
        wave: episodes at a time.
        rewards: grade transcripts too, by name; needs questions, and an engine that keeps texts.
        trials: attempts at a task that is not solved yet, the agents reflecting in between; needs ``ReflexionAgent``
            and texts. An episode counts by its last trial.
        keep: is given every group that was played, all trials included.
    """
    if not tasks:
        raise ConfigError("there is no task to evaluate on")
    plays = [_Plays(engine, agent, tasks, seed, wave, trials, keep) for agent in (greedy, sampled) if agent is not None]
    first = plays[0].round(0)
    rounds = [plays[1].round(1 + r) for r in range(samples)] if sampled is not None else []
    shown = rounds or [first]
    judged = [group for groups in shown for group in groups]
    turns = [turn for group in judged for turn in group.turns]
    needed = np.array((plays[-1] if rounds else plays[0]).needed)
    return Evaluation(
        task_ids=tuple(task.task_id for task in tasks),
        greedy=np.array([group.trajectories[0].success for group in first], np.bool_),
        sampled=np.array([sum(g[i].trajectories[0].success for g in rounds) for i in range(len(tasks))], np.int64),
        samples=len(rounds),
        turns=len(turns) / len(judged),
        invalid_fraction=float(np.mean([not turn.valid for turn in turns])) if turns else 0.0,
        errors=sum(group.trajectories[0].stop_reason == "env_error" for group in judged),
        rewards={
            name: float(np.mean([reward(transcript_of(group, 0)) for group in judged]))
            for name, reward in (rewards or {}).items()
        },
        shares=np.mean([[group.trajectories[0].success for group in groups] for groups in shown], axis=0),
        scores=np.mean([[group.trajectories[0].score for group in groups] for groups in shown], axis=0),
        types=tuple(map(task_type, tasks)),
        solved_by_trial=tuple(float(np.mean((needed > 0) & (needed <= k))) for k in range(1, trials + 1))
        if trials > 1
        else (),
    )


def task_type(task: Task) -> str:
    """The kind of a task by its environment's own list (ALFWorld's six, a question's form); "" if it has none."""
    field_of = {"alfworld": "goal", "wikisearch": "kind"}.get(task.task_id.partition(":")[0].rstrip("0123456789"), "")
    value = task.content.get(field_of, "")
    return str(value if isinstance(value, str) else value[0])


class _Plays:
    """Rounds of one agent: every task once, with further trials where they are wanted.

    Attributes:
        needed: of every episode so far, how many trials it took; 0 if none of them succeeded.
    """

    def __init__(
        self,
        engine: RolloutEngine,
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
        self.needed: list[int] = []

    def round(self, iteration: int) -> list[Group]:
        """The last trial of every task."""
        agent, last = self._agent, {}
        if isinstance(agent, ReflexionAgent):
            agent.reset()
        left = list(self._tasks)
        solved: dict[str, int] = {}
        for trial in range(self._trials):
            played = _waves(self._engine, agent, left, self._seed, iteration, trial, self._wave)
            for group in played:
                last[group.task_id] = group
                if self._keep is not None:
                    self._keep(group)
                if group.trajectories[0].success:
                    solved[group.task_id] = trial + 1
            failed = [group.trajectories[0] for group in played if not group.trajectories[0].success]
            left = [task for task in left if task.task_id not in solved]
            if not left or trial + 1 == self._trials:
                break
            if isinstance(agent, ReflexionAgent):
                agent.reflect(failed, seed=self._seed)
        self.needed += [solved.get(task.task_id, 0) for task in self._tasks]
        return [last[task.task_id] for task in self._tasks]


def _waves(
    engine: RolloutEngine, agent: Agent, tasks: Sequence[Task], seed: int, iteration: int, trial: int, wave: int
) -> list[Group]:
    groups: list[Group] = []
    for start in range(0, len(tasks), wave):
        groups += engine.play(agent, tasks[start : start + wave], seed=seed, iteration=iteration, trial=trial)
    if len(groups) != len(tasks):
        raise ConfigError("some tasks could not be begun, so there is nothing to evaluate on them")
    return groups
