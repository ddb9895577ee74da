"""M6: the value of a turn by trying: continue K times from before and from after the taken action.

For policies without a table (language models, agents with memory) exact values do not exist; a fork restores the
snapshot, shows the agent the same history, and plays on with fresh randomness. Environments are replayed from the
rollout's own seed, so that a stochastic environment reaches the same state again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from creditflow.agents.base import Agent, View
from creditflow.envs.errors import ConfigError, DataError, short_repr
from creditflow.train.rollout.replay import replay
from creditflow.wrappers.recorder import Recorder
from creditflow.wrappers.records.trajectory import Trajectory, Turn

__all__ = ["Forks", "fork_values", "reliability", "true_correlation"]


class Forks(NamedTuple):
    """Outcomes of continuations of one rollout's turns; T turns, K continuations each.

    Attributes:
        before: float64 (T, K), from the state before each turn.
        after: float64 (T, K), from the state after its action; the outcome itself where the episode is over.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def advantage(self) -> NDArray[np.float64]:
        """float64 (T,), Q̂ − V̂."""
        return np.asarray(self.after.mean(axis=1) - self.before.mean(axis=1))


def fork_values(
    make_env: Callable[[], gym.Env[Any, Any]],
    agent: Agent,
    trajectory: Trajectory,
    rng: np.random.Generator,
    *,
    continuations: int = 32,
    turns: Sequence[int] | None = None,
    seed: int | None = None,
    task: Mapping[str, Any] = MappingProxyType({}),
) -> Forks:
    """Continue a recorded rollout from each of its turns.

    Args:
        make_env: makes the environment of the rollout (without ``Recorder``).
        agent: whose value is asked for; it gets the rollout's history as ``View.turns``.
        trajectory: recorded; its actions are replayed from its task and seed.
        rng: of the continuations.
        continuations: K ≥ 2.
        turns: which turns (default all); other rows are nan.
        seed: of the recorded environment's chance; default the trajectory's own, for a member of a ``GroupEnv``
            ``member_seed(trajectory.seed, trajectory.group_id, trajectory.replica)``. Without chance it is idle.
        task: the group's payload; needed where the environment's source does not list the task, as a generator.

    Raises:
        DataError: the replay does not come through the recorded states, or the environment has other limits.
        ConfigError: K < 2.
    """
    if continuations < 2:
        raise ConfigError(f"forks need at least two continuations, got {short_repr(continuations)}")
    member = Recorder(make_env())
    try:
        snapshots = replay(
            member.base, trajectory.turns, task_id=trajectory.task_id, task=task,
            seed=trajectory.seed if seed is None else seed, stop_reason=trajectory.stop_reason,
        )  # fmt: skip
    except DataError as error:
        raise DataError(f"trajectory {trajectory.trajectory_id!r}: {error}") from error
    wanted = set(range(len(trajectory.turns)) if turns is None else turns)
    ends = np.full((len(snapshots), continuations), np.nan)
    last = len(trajectory.turns)
    for place, snapshot in enumerate(snapshots):
        if place == last:
            ends[place] = trajectory.score
        elif place in wanted or place - 1 in wanted:
            history = trajectory.turns[:place]
            ends[place] = [_play_on(member, agent, snapshot, history, rng) for _ in range(continuations)]
    before, after = ends[:-1], ends[1:]
    unwanted = [t for t in range(last) if t not in wanted]
    before[unwanted], after = np.nan, after.copy()
    after[unwanted] = np.nan
    return Forks(before.copy(), after)


def _play_on(
    member: Recorder, agent: Agent, snapshot: str, history: tuple[Turn, ...], rng: np.random.Generator
) -> float:
    """Score of one continuation."""
    base = member.base
    observation, info = base.set_state(snapshot)
    base.np_random = np.random.Generator(np.random.PCG64(int(rng.integers(2**63))))  # the future is not replayed
    turns = list(history)
    own = np.random.default_rng(int(rng.integers(2**63)))
    while True:
        decision = agent.act([View(observation, info, tuple(turns), base, own)])[0]
        before = info
        shown = observation if isinstance(observation, str) else ""
        observation, reward, terminated, truncated, info = base.step(decision.action)
        turns.append(
            Turn(
                before["state_key"],
                decision.action if isinstance(decision.action, str) else str(decision.action),
                info["state_key"],
                reward=float(reward),
                parsed=info["action_parsed"],
                admissible=info["action_admissible"],
                effective=info["action_effective"],
                observation=shown,
                thought=decision.thought,
                response=decision.response,
                text_key=before["text_key"],
                invalid_reason=info["invalid_reason"],
            )
        )
        if terminated or truncated:
            return float(info["score"])


def reliability(samples: NDArray[np.float64]) -> float:
    """Split-half reliability of row means, stepped up to full length (Spearman–Brown).

    Args:
        samples: float64 (N, K), K continuations of each of N turns; split into even and odd columns.
    """
    odd, even = samples[:, 1::2].mean(axis=1), samples[:, 0::2].mean(axis=1)
    r = _correlation(odd, even)
    return 2.0 * r / (1.0 + r) if r > -1.0 else float("nan")


def true_correlation(credit: NDArray[np.float64], forks: Forks) -> float:
    """Correlation of credit with the advantage, corrected for the noise of K continuations; nan if undefined.

    The reliability of Q̂ − V̂ is that of paired differences; credit is taken as measured without noise.
    """
    whole = ~np.isnan(forks.before).any(axis=1)
    samples = forks.after[whole] - forks.before[whole]
    quality = reliability(samples)
    if not quality > 0.0:
        return float("nan")
    return _correlation(credit[whole], samples.mean(axis=1)) / float(np.sqrt(quality))


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    a, b = x - x.mean(), y - y.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0.0 else float("nan")
