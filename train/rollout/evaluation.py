"""Evaluation on a panel: success of greedy and sampled episodes, score and pass@k, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent
from creditflow.agents.language_model.react import ReflexionAgent
from creditflow.envs.errors import ConfigError
from creditflow.envs.tasks import Task
from creditflow.envs.wikisearch.env import WikiSearchEnv
from creditflow.envs.wikisearch.grading.rewards import Reward
from creditflow.envs.wikisearch.grading.scoring import exact_match, token_f1
from creditflow.envs.wikisearch.protocol.dialects import Dialect
from creditflow.train.rollout.engine import RolloutEngine
from creditflow.train.settings.rollout import WAVE
from creditflow.train.statistics import Interval, rate_interval, t_quantile
from creditflow.wrappers.episode_rewards import transcript_of
from creditflow.wrappers.records.group import Group

__all__ = [
    "ANSWER_METRICS",
    "Evaluation",
    "answer_scores",
    "clustered_interval",
    "dialect_of",
    "evaluate",
    "measured_tasks",
    "pass_at_k",
    "played_tasks",
    "task_type",
]

ANSWER_METRICS: Final = {"em": exact_match, "f1": token_f1}


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
        return text + f", invalid {s['invalid_fraction']:.3f}"


def evaluate(
    engine: RolloutEngine,
    greedy: Agent,
    sampled: Agent | None,
    tasks: Sequence[Task],
    *,
    samples: int,
    seed: int,
    wave: int = WAVE,
    rewards: Mapping[str, Reward] | None = None,
    dialect: Dialect | None = None,
    trials: int = 1,
) -> Evaluation:
    """Play every task once with ``greedy`` and ``samples`` times with ``sampled``, and measure the episodes.

    The arguments are those of ``played_tasks`` and ``measured_tasks``.
    """
    samples = samples if sampled is not None else 0
    played = played_tasks(engine, greedy, sampled, tasks, samples=samples, seed=seed, wave=wave, trials=trials)
    return measured_tasks(tasks, list(played), samples=samples, rewards=rewards, dialect=dialect, trials=trials)


def played_tasks(
    engine: RolloutEngine,
    greedy: Agent,
    sampled: Agent | None,
    tasks: Sequence[Task],
    *,
    samples: int,
    seed: int,
    wave: int = WAVE,
    trials: int = 1,
) -> Iterator[list[Group]]:
    """Play every task; yields its group, in order: the greedy episode as replica 0, then the sampled ones.

    Further trials of its episodes are further groups of the task, because they are no independent samples.

    Args:
        engine: rollout engine with groups of one member.
        greedy, sampled: agents of one policy.
        tasks: tasks to play.
        samples: number of sampled episodes per task; 0 for none.
        seed: seed of the sampled episodes; equal seeds give equal random numbers to every policy.
        wave: number of concurrent episodes.
        trials: maximum number of attempts at a task, with reflections in between; needs ``ReflexionAgent`` and texts.

    Raises:
        ConfigError: no tasks, a task that cannot be started, or several trials of an agent that does not reflect.
    """
    if not tasks:
        raise ConfigError("there are no tasks to evaluate on")
    agents = [greedy, *([sampled] * samples if sampled is not None else [])]
    if trials < 1 or (trials > 1 and not all(isinstance(agent, ReflexionAgent) for agent in agents)):
        raise ConfigError(f"several trials need an agent that reflects: reflexion:hf:PATH; got {trials} trials")
    for start in range(0, len(tasks), wave):
        some = tasks[start : start + wave]
        rounds = [_round(engine, agent, some, seed, number, trials) for number, agent in enumerate(agents)]
        for task in some:
            episodes = [played[task.task_id] for played in rounds]
            yield [_of_trial(episodes, trial) for trial in range(max(map(len, episodes)))]


def _round(
    engine: RolloutEngine, agent: Agent, tasks: Sequence[Task], seed: int, iteration: int, trials: int
) -> dict[str, list[Group]]:
    """One episode of each task, with further trials of failed ones; by task the groups of its trials."""
    if isinstance(agent, ReflexionAgent):
        agent.reset()
    played: dict[str, list[Group]] = {task.task_id: [] for task in tasks}
    unsolved = list(tasks)
    for trial in range(trials):
        groups = engine.play(agent, unsolved, seed=seed, iteration=iteration, trial=trial)
        if len(groups) != len(unsolved):
            raise ConfigError("some tasks could not be started, so they cannot be evaluated")
        for group in groups:
            played[group.task_id].append(group)
        failed = [group.trajectories[0] for group in groups if not group.trajectories[0].success]
        unsolved = [task for task in unsolved if not played[task.task_id][-1].trajectories[0].success]
        if not unsolved or trial + 1 == trials:
            break
        if isinstance(agent, ReflexionAgent):
            agent.reflect(failed, seed=seed, iteration=iteration)
    return played


def _of_trial(rounds: Sequence[Sequence[Group]], trial: int) -> Group:
    """One group of a task's episodes that had such a trial; the replica is the number of the round."""
    name = f"{rounds[0][0].task_id}#eval" + (f".{trial}" if trial else "")
    members = [
        replace(groups[trial].trajectories[0], group_id=name, trajectory_id=f"{name}/{number}", replica=number)
        for number, groups in enumerate(rounds)
        if len(groups) > trial
    ]
    return replace(rounds[0][0], trajectories=tuple(members))


def measured_tasks(
    tasks: Sequence[Task],
    played: Sequence[Sequence[Group]],
    *,
    samples: int,
    rewards: Mapping[str, Reward] | None = None,
    dialect: Dialect | None = None,
    trials: int = 1,
) -> Evaluation:
    """Measure episodes; one counts by its last trial.

    Args:
        tasks: the tasks, in order.
        played: for each of them what ``played_tasks`` yielded.
        samples: number of sampled episodes per task.
        rewards: transcript rewards to compute too, by name; needs questions, and episodes with texts.
        dialect: of a search environment its format of calls: exact match and F1 of the answers are computed too.
        trials: maximum number of attempts that an episode had.
    """
    last = [
        {member.replica: (group, at) for group in groups for at, member in enumerate(group.trajectories)}
        for groups in played
    ]
    reported = [[of_task[replica] for replica in (range(1, 1 + samples) if samples else (0,))] for of_task in last]
    episodes = [group.trajectories[at] for of_task in reported for group, at in of_task]
    turns = [turn for episode in episodes for turn in episode.turns]

    def by_task(value: Callable[[Group, int], float]) -> NDArray[np.float64]:
        """Mean of each task's values over the reported episodes, given as a group and an index."""
        values = [[value(group, at) for group, at in of_task] for of_task in reported]
        means: NDArray[np.float64] = np.array(values, np.float64).mean(axis=1)
        return means

    def success(group: Group, at: int) -> bool:
        return group.trajectories[at].success

    def rewarded(reward: Reward) -> NDArray[np.float64]:
        return by_task(lambda group, at: reward(transcript_of(group, at)))

    def answered(name: str, dialect: Dialect) -> NDArray[np.float64]:
        return by_task(lambda group, at: answer_scores(group, at, dialect)[name])

    needed = [episode.trial + 1 if episode.success else 0 for episode in episodes]
    return Evaluation(
        task_ids=tuple(task.task_id for task in tasks),
        greedy=np.array([success(*of_task[0]) for of_task in last], np.bool_),
        sampled=np.rint(by_task(success) * samples).astype(np.int64),
        samples=samples,
        turns=len(turns) / len(episodes),
        invalid_fraction=float(np.mean([not turn.valid for turn in turns])) if turns else 0.0,
        errors=sum(episode.stop_reason == "env_error" for episode in episodes),
        task_rewards={name: rewarded(reward) for name, reward in (rewards or {}).items()},
        task_answers={} if dialect is None else {name: answered(name, dialect) for name in ANSWER_METRICS},
        success_rates=by_task(success),
        scores=by_task(lambda group, at: group.trajectories[at].score),
        types=tuple(map(task_type, tasks)),
        solved_by_trial=_solved_by_trial(needed, trials),
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


def dialect_of(env: Any) -> Dialect | None:
    """Return the format of calls of a search environment; None of any other environment."""
    return env.dialect if isinstance(env, WikiSearchEnv) else None


def answer_scores(group: Group, index: int, dialect: Dialect) -> dict[str, float]:
    """Return the metrics of an episode's answer against the golden answers of its question; 0 without an answer.

    Args:
        group: rollouts of a question, whose payload has "answers".
        index: index of the episode.
        dialect: format of its calls.
    """
    turns = group.episodes[index]
    last = turns[-1] if turns else None
    call = dialect.parse(last.action).call if last is not None and last.valid else None
    if call is None or call.tool != "answer":
        return dict.fromkeys(ANSWER_METRICS, 0.0)
    golden = [str(answer) for answer in group.task["answers"]]
    return {name: float(metric(call.items[0], golden)) for name, metric in ANSWER_METRICS.items()}
